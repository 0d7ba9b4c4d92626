"""``nnjit bench kernels --backend webgpu``: products in WGSL, compared with the peers."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from nnjit_studio.bench.gpu.page import BenchPage, gpu_page
from nnjit_studio.bench.options import BenchOptions, Note
from nnjit_studio.bench.peers.kernels import SHAPES as WASM_SHAPES
from nnjit_studio.bench.peers.kernels import parse_shapes as parse_named
from nnjit_studio.bench.statistics import geomean, ratios, spread
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.spelling import WorkloadSpec, seeded_input
from nnjit_studio.compiler.wgsl.templates.subgroup_matrix import (
    FEATURES,
    matrix_product,
    matrix_space,
)
from nnjit_studio.errors import UserError
from nnjit_studio.records import DeviceProfile, gpu_tiers
from nnjit_studio.samples.small import port, save_model
from nnjit_studio.space import build_lite_space
from nnjit_studio.verdict.figures import relative_error

SHAPES = {name: WASM_SHAPES[name] for name in ("K0", "K1", "K2", "K3")} | {
    "4096": "matmul:4096x4096x4096:f32"
}
"""The paper's K0 to K3, and one that fills any GPU."""
KINDS = ("matmul", "matmul_var", "batch_matmul")
STYLES = {"submit": "one per submit", "pass": "many per submit"}
"""How products reach the GPU, the same for all contenders."""
DEPTH = 16
"""Products that share a submit: as many as ONNX Runtime Web gives at a time."""
DEPTH_BYTES = 1 << 28
"""Outputs of one submit together, at most; at least four products share it."""


@dataclass(frozen=True)
class GpuPolicy:
    """How the page samples (``resources/bench/gpu/timing.js``); times in ms."""

    rounds: int = 7
    sample_ms: float = 10.0
    most_sample_ms: float = 1500.0
    warm_ms: float = 60.0
    readbacks: int = 15


POLICY = GpuPolicy()


@dataclass(frozen=True)
class Prepared:
    """A shape whose operands, reference and models are in the page's folder."""

    name: str
    folder: str
    spec: WorkloadSpec
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    out_shape: tuple[int, ...]
    reference: NDArray[np.float64]
    flops: int
    dtype: str = "float32"

    @property
    def depth(self) -> int:
        fitting = DEPTH_BYTES // (4 * int(np.prod(self.out_shape)))
        return max(4, min(DEPTH, fitting))


def parse_shapes(text: str | None) -> list[tuple[str, WorkloadSpec]]:
    """A comma list of names of :data:`SHAPES` or spellings; all of :data:`SHAPES` without.

    Raises
    ------
    UserError
        When one is not a workload, or not a plain product.
    """
    named = parse_named(text, SHAPES)
    for _, spec in named:
        if spec.kind not in KINDS or spec.epilogue:
            raise UserError(
                f"The GPU's benchmark takes plain products only, not {spec}.",
                f"Use {', '.join(KINDS)} without an epilogue.",
            )
    return named


def prepare(
    shapes: Iterable[tuple[str, WorkloadSpec]], folder: Path, dtype: str = "float32"
) -> list[Prepared]:
    """Write operands of a dtype, float64 references and the peers' models of each shape."""
    prepared = []
    for index, (name, spec) in enumerate(shapes):
        place = folder / str(index)
        place.mkdir()
        *batch, m, k, n = spec.dims
        inputs = (("in0", (*batch, m, k)), ("in1", (*batch, k, n)))
        operands = [seeded_input(str(spec), label, shape).astype(dtype) for label, shape in inputs]
        for (label, _), operand in zip(inputs, operands, strict=True):
            (place / f"{label}.bin").write_bytes(operand.tobytes())
        reference = np.matmul(operands[0].astype(np.float64), operands[1].astype(np.float64))
        (place / "reference.bin").write_bytes(reference.astype(np.float32).tobytes())
        flops = 2 * int(np.prod(batch, dtype=int)) * m * k * n
        shape = Prepared(name, place.name, spec, inputs, reference.shape, reference, flops, dtype)
        write_products(place / "one.onnx", shape, 1)
        write_products(place / "many.onnx", shape, shape.depth)
        prepared.append(shape)
    return prepared


def write_products(path: Path, shape: Prepared, count: int) -> None:
    """A model of ``count`` equal products; the left operand has four names that all are fed alike.

    With one name, common subexpressions would leave one product of all.
    """
    left = ["in0"] if count == 1 else [f"in0_{i}" for i in range(4)]
    outputs = ["out0"] if count == 1 else [f"out{i}" for i in range(count)]
    nodes = [
        helper.make_node("MatMul", [left[i % len(left)], "in1"], [output])
        for i, output in enumerate(outputs)
    ]
    dims = dict(shape.inputs)
    fed = [(name, dims["in0"]) for name in left] + [("in1", dims["in1"])]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(shape.dtype))
    save_model(
        path,
        nodes,
        [port(name, dims, element) for name, dims in fed],
        [port(name, shape.out_shape, element) for name in outputs],
    )


def device_of(page: BenchPage) -> DeviceProfile:
    """The adapter as the spaces want it, every GPU tier that it has included."""
    profile = page.profile
    label = f"chromium+webgpu:{profile.name}"
    return DeviceProfile(label, "chromium+webgpu", tiers=gpu_tiers(profile), gpu=profile)


KernelSource = Callable[[WorkloadSpec, DeviceProfile], list[dict[str, Any]]]
"""Kernels of a shape to be tried: ``settings`` and ``document`` (docs/webgpu.md) of each."""


def candidates(
    compiler: Compiler, most: int | None, spec: WorkloadSpec, device: DeviceProfile
) -> list[dict[str, Any]]:
    """The first ``most`` candidates of the lite space in its order, each in every tier.

    Equal documents are there once; what does not compile is left out.
    """
    workload, _ = compiler.process.define(str(spec))
    found: dict[str, dict[str, Any]] = {}
    for entry in build_lite_space(workload, device, False).entries[:most]:
        compiled = compiler.compile(workload, entry.candidate, device.tiers)
        for kernel in compiled.kernels:
            settings = f"{kernel.settings} {kernel.tier}"
            document = json.loads(kernel.data)
            found.setdefault(kernel.sha256, {"settings": settings, "document": document})
    return list(found.values())


def lab_candidates(
    most: int | None, spec: WorkloadSpec, device: DeviceProfile
) -> list[dict[str, Any]]:
    """The first ``most`` settings of the lab's products of float16 matrices.

    Raises
    ------
    UserError
        When the adapter has no subgroup matrices, or the shape is not a multiple of their tiles.
    """
    missing = set(FEATURES).difference(device.gpu.features if device.gpu else ())
    if missing:
        raise UserError(
            f"The adapter lacks {', '.join(sorted(missing))}.",
            "Take a GPU with matrix units and a Chromium that knows its switches.",
        )
    *batches, m, k, n = spec.dims
    batch = int(np.prod(batches, dtype=int))
    found = [
        {"settings": str(tiles), "document": asdict(matrix_product(batch, m, k, n, tiles))}
        for tiles in matrix_space(m, k, n)[:most]
    ]
    if not found:
        raise UserError(f"{spec} is not a multiple of a fragment.", "Use multiples of 16.")
    return found


def compare(
    shapes: Sequence[tuple[str, WorkloadSpec]],
    kernels_of: KernelSource,
    options: BenchOptions,
    note: Note,
    native: Mapping[str, Any],
    policy: GpuPolicy = POLICY,
    dtype: str = "float32",
) -> dict[str, Any]:
    """Measure ours and the peers in one page of one browser; the benchmark's JSON document.

    Parameters
    ----------
    native
        What ``benchmarks/cublas.py`` wrote, or nothing.
    dtype
        Of the operands; our result is always float32.

    Raises
    ------
    UserError, TargetError, PageError
    """
    prepared = prepare(shapes, options.folder, dtype)
    with gpu_page("kernels", options, note) as page:
        for index, shape in enumerate(prepared):
            tried = kernels_of(shape.spec, device_of(page))
            note(f"{shape.name}: {len(tried)} kernels compiled")
            (options.folder / str(index) / "candidates.json").write_text(json.dumps(tried))
        job = {"peers": options.peers, "policy": asdict(policy)}
        rows = []
        for message in page.rows({**job, "shapes": list(map(_shape_json, prepared))}):
            shape = prepared[message["index"]]
            outputs = {
                name: np.frombuffer(page.upload(f"{message['index']}-{name}"), np.float32)
                for name in message["timed"]
            }
            row = _row(shape, message, outputs, native.get("gpu_ms", {}).get(str(shape.spec)))
            rows.append(row)
            note(row_text(row))
        found = page.document()
    return {
        **found,
        "dtype": dtype,
        "native": {k: v for k, v in native.items() if k != "gpu_ms"},
        "rows": rows,
        "geomean": {
            style: geomean(min(row[style]["ratio"].values()) for row in rows if row[style]["ratio"])
            for style in STYLES
        },
    }


def _shape_json(p: Prepared) -> dict[str, Any]:
    return {
        "spec": str(p.spec),
        "dtype": p.dtype,
        "folder": p.folder,
        "inputs": [{"name": name, "dims": list(dims)} for name, dims in p.inputs],
        "out_bytes": 4 * int(np.prod(p.out_shape)),
        "depth": p.depth,
    }


def _row(
    p: Prepared,
    message: Mapping[str, Any],
    outputs: Mapping[str, NDArray[np.float32]],
    native_ms: float | None,
) -> dict[str, Any]:
    reference = p.reference.reshape(-1)
    errors = {name: relative_error(got, reference) for name, got in outputs.items()}
    timed = message["timed"]
    styles = {style: _of_style({n: t[style] for n, t in timed.items()}) for style in STYLES}
    readback = {name: spread(samples) for name, samples in message["readback_ms"].items()}
    best = min(styles[style]["gpu_ms"]["ours"]["median"] for style in STYLES)
    tried = message["tried"]
    return {
        "name": p.name,
        "workload": str(p.spec),
        "depth": p.depth,
        "candidate": message["settings"],
        "candidates": {
            "measured": len(tried),
            "wrong": sum(bool(t["error"]) for t in tried),
            "best_at": message["best_at"],
            "seconds": message["seconds"],
            "pipeline_ms": statistics.median(t["pipeline_ms"] for t in tried),
        },
        **styles,
        "readback_ms": readback,
        "readback_ratio": ratios(readback),
        "own_clock_ms": {name: spread(samples) for name, samples in message["own_ms"].items()},
        "tflops": p.flops / best / 1e9,
        "native_ms": native_ms,
        "native_share": None if native_ms is None else native_ms / best,
        "max_rel_err": errors["ours"],
        "peers_max_rel_err": {name: e for name, e in errors.items() if name != "ours"},
        "failed": message["failed"],
        "chain_ns": spread(message["chain_ns"]),
        "tried": tried,
        "timed": timed,
    }


def _of_style(timed: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    gpu = {name: spread(found["gpu_ms"]) for name, found in timed.items()}
    wall = {name: spread(found["wall_ms"]) for name, found in timed.items()}
    counted = ("calls", "passes", "dispatches", "submits")
    return {
        "gpu_ms": gpu,
        "wall_ms": wall,
        "ratio": ratios(gpu),
        "wall_ratio": ratios(wall),
        "each": {name: {c: found[c] for c in counted} for name, found in timed.items()},
    }


def row_text(row: Mapping[str, Any]) -> str:
    """One line for a person."""
    parts = []
    for style, words in STYLES.items():
        times = ", ".join(f"{n} {ms['median']:.4f}" for n, ms in row[style]["gpu_ms"].items())
        parts.append(f"{words}: {times} ms")
    failed = "".join(f"; {name} failed: {why}" for name, why in row["failed"].items())
    return f"{row['workload']:<28} {'; '.join(parts)}; {row['tflops']:.2f} TFLOP/s{failed}"
