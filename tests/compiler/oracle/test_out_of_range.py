"""Whatever indices and divisors an input holds, no kernel leaves its buffers or traps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from kernel_harness import run_kernel
from operator_cases import Case, all_cases, reference

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.records import TIERS

INDEXED = {
    "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Scatter", "OneHot",
    "TopK", "ArgMax", "GridSample", "Resize", "Compress", "Div", "Mod", "BitShift",
}  # fmt: skip
CASES = [c for c in all_cases() if c.op in INDEXED]


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_hostile_values_stay_inside(case: Case, tmp_path: Path) -> None:
    model, _ = reference(case)
    onnx.save(model, str(tmp_path / "m.onnx"))
    built = import_model(tmp_path / "m.onnx", tmp_path / "w.bin")
    rng = np.random.default_rng(9)
    runs = 0
    for program in built.programs.values():
        for tier in TIERS:
            kernel = compile_program(program, None, tier)
            inputs = {}
            for b in program.buffers:
                if b.role == "input":
                    size = int(np.prod(b.shape))
                    inputs[b.name] = hostile(rng, b.dtype, size).reshape(b.shape)
            # The harness compares every byte around the buffers.
            results = run_kernel(program, kernel.data, kernel.parallel_extent, inputs)
            assert results
            runs += 1
    assert runs == 2 * len(built.programs)


def hostile(rng: np.random.Generator, dtype: str, size: int) -> np.ndarray:
    """Extreme values of a dtype."""
    kind = {"f32": np.float32, "f16": np.float16, "bool": np.bool_}.get(dtype)
    if kind is not None:
        values = np.array([0, -1, 1e30, -1e30, np.inf, -np.inf, np.nan, 5.5])
    else:
        kind = {"i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}[dtype]
        limits = np.iinfo(kind)
        values = np.array([limits.min, limits.max, 0, 1, limits.max // 2, limits.min + 1], kind)
    with np.errstate(all="ignore"):
        return rng.choice(values.astype(kind), size)
