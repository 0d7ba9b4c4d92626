"""Every operator case as WGSL on wgpu-native: ``make operators-wgsl``; CASES picks some by name."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import onnx
from operator_cases import Case, all_cases, close, reference
from run_plan_wgsl import run_by_documents
from wgsl_harness import has_subgroups

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import CompileError, ModelError, UnsupportedOpError
from nnjit_studio.records import GPU_TIERS

RUNS = "runs"


def status(case: Case, folder: Path) -> str:
    """``runs``, or the sentence of the refusal.

    Raises
    ------
    AssertionError
        When a kernel gives another result than the reference.
    """
    model, expected = reference(case)
    path, weights = folder / "model.onnx", folder / "weights.bin"
    onnx.save(model, str(path))
    try:
        built = import_model(path, weights)
        for tier in GPU_TIERS[: 1 + has_subgroups()]:
            got = run_by_documents(built, weights, case.feeds, tier)
            for name, array in expected.items():
                assert got[name].dtype == array.dtype
                assert got[name].shape == array.shape
                near(got[name], array)
    except (UnsupportedOpError, ModelError, CompileError) as e:
        return str(e).splitlines()[0]
    return RUNS


def near(got: np.ndarray, expected: np.ndarray) -> None:
    """As ``close``, but where large terms cancel the error is relative to the largest result."""
    finite = np.abs(expected[np.isfinite(expected)]) if expected.dtype.kind == "f" else expected
    scale = max(1.0, float(finite.max(initial=0))) if expected.dtype.kind == "f" else 1.0
    if scale == 1.0:
        close(got, expected)
    else:
        relative, absolute = (2e-5, 2e-6) if expected.dtype == np.float32 else (4e-3, 2e-3)
        wide = (a.astype(np.float64) for a in (got, expected))
        np.testing.assert_allclose(*wide, rtol=relative, atol=absolute * scale)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="", help="only cases whose name holds this")
    parser.add_argument("--every", type=int, default=1, help="only each so many-th case")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    chosen = [c for c in all_cases() if options.cases in c.name][:: options.every]
    wrong, refused, running = [], {}, 0
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        for case in chosen:
            try:
                found = status(case, Path(folder))
            except Exception as e:
                last = traceback.extract_tb(e.__traceback__)[-1]
                wrong.append(case.name)
                text = " ".join(str(e).split())[:300]
                place = f"{Path(last.filename).name}:{last.lineno}"
                sys.stdout.write(f"WRONG {case.name}: {type(e).__name__} at {place}: {text}\n")
                continue
            if found == RUNS:
                running += 1
            else:
                refused[case.name] = found
    for name, sentence in refused.items():
        sys.stdout.write(f"refused {name}: {sentence}\n")
    sys.stdout.write(
        f"{len(chosen)} cases: {running} run, {len(refused)} refused, {len(wrong)} wrong, "
        f"{time.perf_counter() - start:.0f} s\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
