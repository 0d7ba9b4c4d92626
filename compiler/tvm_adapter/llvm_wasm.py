"""The conventional ways to Wasm, for the benchmark of compile times alone.

TVM's schedule and lowering, LLVM's ``wasm32`` backend with SIMD128, and then
either ``wasm-ld`` (LLVM's linker) or ``emcc`` (Emscripten, with its optimiser).
"""

from __future__ import annotations

import shutil
import subprocess
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from tvm import IRModule, s_tir, te, tirx
from tvm.target import Target

from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

LINKERS = {
    "wasm-ld": ("--no-entry", "--export-all", "--allow-undefined"),
    "emcc": (
        "-O2",
        "-msimd128",
        "--no-entry",
        "-sSTANDALONE_WASM",
        "-sERROR_ON_UNDEFINED_SYMBOLS=0",
        "-Wl,--export-all",
    ),
}
_TARGET = {"kind": "llvm", "mtriple": "wasm32-unknown-unknown", "mattr": ["+simd128"]}


def linkers() -> list[str]:
    """Those of :data:`LINKERS` that are installed."""
    return [name for name in LINKERS if shutil.which(name)]


@lru_cache(maxsize=16)
def _function(batch: int, m: int, k: int, n: int) -> Any:
    a = te.placeholder((batch, m, k), name="A")
    b = te.placeholder((batch, k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((batch, m, n), lambda p, i, j: te.sum(a[p, i, r] * b[p, r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c])


def _schedule(function: Any, candidate: Candidate) -> IRModule:
    schedule = s_tir.Schedule(IRModule({"main": function}))
    block = schedule.get_sblock("C")
    p, i, j, r = schedule.get_loops(block)
    i0, i1 = schedule.split(i, [None, candidate.y0])
    j0, j1 = schedule.split(j, [None, candidate.x0])
    r0, r1 = schedule.split(r, [None, candidate.r0])
    schedule.reorder(p, j0, i0, r0, r1, i1, j1)
    schedule.vectorize(j1)
    schedule.unroll(i1)
    schedule.unroll(r1)
    schedule.decompose_reduction(block, r0)
    return schedule.mod


def build_ms(
    batch: int, m: int, k: int, n: int, candidate: Candidate, folder: Path
) -> dict[str, float]:
    """Milliseconds of each step from settings to a Wasm file, for one matmul.

    ``schedule``, ``llvm`` (lowering, code, object file) and one entry for each
    installed linker. What does not depend on the candidate is done before.

    Raises
    ------
    CompileError
        When a linker refuses the object file.
    """
    function = _function(batch, m, k, n)
    start = time.perf_counter()
    module = _schedule(function, candidate)
    scheduled = time.perf_counter()
    built = tirx.build(module, target=Target(_TARGET))
    built.write_to_file(str(folder / "kernel.o"))
    steps = {
        "schedule": (scheduled - start) * 1e3,
        "llvm": (time.perf_counter() - scheduled) * 1e3,
    }
    for linker in linkers():
        command = [linker, str(folder / "kernel.o"), "-o", str(folder / "kernel.wasm")]
        start = time.perf_counter()
        done = subprocess.run([*command, *LINKERS[linker]], capture_output=True, text=True)
        steps[linker] = (time.perf_counter() - start) * 1e3
        if done.returncode != 0:
            raise CompileError(f"{linker} failed: {done.stderr.strip()[-300:]}")
    return steps
