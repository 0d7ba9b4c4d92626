"""``nnjit bench compile``: settings to bytes, compared with two conventional ways to Wasm."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnjit_studio.bench.conditions import load_average, measured_now
from nnjit_studio.bench.options import Note
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.spelling import WorkloadSpec
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.records import TIERS
from nnjit_studio.space import Candidate, build_lite_space

LINKERS = {"wasm-ld": "lld", "emcc": "emscripten"}
"""Command of each conventional way, and the Debian package that has it."""
REPEATS = 3
CONVENTIONAL_CANDIDATES = 5


def bench_compile(
    compiler: Compiler,
    shapes: Sequence[tuple[str, WorkloadSpec]],
    note: Note,
    conventional: bool = True,
) -> dict[str, Any]:
    """Compile times of all candidates of the shapes' lite spaces, in ms.

    A time is the compile process's own, of one tier, from settings to bytes;
    each candidate is compiled :data:`REPEATS` times and every time counts, so
    that the 99th percentile shows what a user can meet. The first candidate of
    a shape also reads the program; it counts too.
    """
    before = load_average()
    device = host_profile()
    rows: list[dict[str, Any]] = []
    defined: list[tuple[Workload, list[Candidate]]] = []
    for name, spec in shapes:
        workload, packable = compiler.process.define(str(spec))
        candidates = build_lite_space(workload, device, packable).wasm_candidates
        facts = _compile_all(compiler, workload, candidates)
        rows.append({"name": name, "workload": str(spec), **facts, "conventional_ms": {}})
        defined.append((workload, candidates[:CONVENTIONAL_CANDIDATES]))
        median = facts["ms"]["median"]
        note(f"{name}: median {median:.2f} ms of {facts['compilations']} compilations")
    if conventional:
        for row, (workload, some) in zip(rows, defined, strict=True):
            measured = [compiler.process.conventional_ms(workload, c) for c in (some[0], *some)]
            row["conventional_ms"] = _conventional(measured[1:])  # the first loads TVM
            note(f"{row['name']}: the conventional ways")
    versions = {"compiler": compiler.version, **(_tool_versions() if conventional else {})}
    return {"ok": True, **measured_now(before, versions), "rows": rows}


def _compile_all(
    compiler: Compiler, workload: Workload, candidates: Sequence[Candidate]
) -> dict[str, Any]:
    total: list[float] = []
    passes: dict[str, list[float]] = {}
    sizes: list[int] = []
    for candidate in (c for c in candidates for _ in range(REPEATS)):
        result = compiler.compile(workload, candidate, TIERS[-1:])
        if result.error:
            raise CompileError(f"{workload.name}, {candidate}: {result.error}")
        total.append(result.ms)
        sizes.append(len(result.kernels[0].data))
        for step, ms in result.pass_ms.items():
            passes.setdefault(step, []).append(ms)
    return {
        "candidates": len(candidates),
        "compilations": len(total),
        "ms": times(total),
        "pass_ms": {step: statistics.median(ms) for step, ms in passes.items()},
        "nbytes": {"median": statistics.median(sizes), "max": max(sizes)},
    }


def _tool_versions() -> dict[str, str]:
    found = {"apache-tvm": importlib.metadata.version("apache-tvm")}
    for linker in filter(shutil.which, LINKERS):
        said = subprocess.run([linker, "--version"], capture_output=True, text=True).stdout
        match = re.search(r"\d+(\.\d+)+", said)
        found[linker] = match[0] if match else "of unknown version"
    return found


def times(ms: Sequence[float]) -> dict[str, float]:
    median, p99 = np.percentile(ms, (50, 99))
    return {"median": float(median), "p99": float(p99), "max": max(ms)}


def _conventional(measured: Sequence[dict[str, float]]) -> dict[str, Any]:
    """By linker: median ms of the whole way and of its steps; None where not installed."""

    def median(step: str) -> float:
        return statistics.median(m[step] for m in measured)

    result: dict[str, Any] = {}
    for linker in LINKERS:
        if linker not in measured[0]:
            result[linker] = None
            continue
        whole = [m["schedule"] + m["llvm"] + m[linker] for m in measured]
        result[linker] = {
            "median": statistics.median(whole),
            "steps": {step: median(step) for step in ("schedule", "llvm", linker)},
        }
    return result
