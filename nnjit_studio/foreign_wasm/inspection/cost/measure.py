"""Compile cost by function and tier: V8 tells it, of other engines it is found by isolation."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.apart import changed
from nnjit_studio.foreign_wasm.apart import whole as whole_file
from nnjit_studio.foreign_wasm.inspection.cost.engines import (
    EVER_MS,
    ISOLATION_V8,
    TIERS,
    Engine,
    Job,
    Row,
)
from nnjit_studio.foreign_wasm.inspection.cost.isolated import isolate
from nnjit_studio.foreign_wasm.inspection.cost.records import (
    Compilation,
    CompileCost,
    Progress,
    TierCost,
)
from nnjit_studio.foreign_wasm.inspection.cost.v8_lines import FLAGS, Compiled, parse
from nnjit_studio.foreign_wasm.inspection.survey import Survey
from nnjit_studio.wasm_file.module import Module

_SAY_EVERY = 2000
"""Compiled functions between two lines of progress."""


def traced(
    engine: Engine, survey: Survey, note: Progress, rounds: int = 1, inlining: bool = True
) -> CompileCost:
    """V8's own figures of every function, from compiling the whole file in each tier.

    Without ``inlining`` they can be compared with isolation, which cannot have it.

    Raises
    ------
    WasmError
        When the engine refuses the module.
    TargetError, PageError
        When the engine does not start, or is lost.
    """
    tiers: list[Compilation] = []
    with tempfile.TemporaryDirectory(prefix="nnjit-wasm-") as folder:
        file = _copied(survey, Path(folder))
        for tier in TIERS[engine.kind]:
            seen: list[Compiled] = []

            def on_line(line: str, tier: str = tier, seen: list[Compiled] = seen) -> None:
                compiled = parse(line)
                if compiled is not None:
                    seen.append(compiled)
                    if len(seen) % _SAY_EVERY == 0:
                        note(f"  {tier}: {len(seen)} compilations")

            note(f"{engine.name} compiles {len(survey.functions)} functions with {tier}.")
            flags = FLAGS if inlining else (*FLAGS, *ISOLATION_V8)
            job = Job(tier, [file], rounds, flags, EVER_MS, on_line)
            rows, peak = _drive(engine, job, note)
            whole = [_accepted(row[0], tier) for row in rows if row[0] is not None]
            tiers.append(
                Compilation(tier, "trace", _by_function(seen), statistics.median(whole), peak)
            )
    return CompileCost(engine.name, engine.version(), tuple(tiers))


def isolated(
    engine: Engine,
    survey: Survey,
    functions: Sequence[int],
    note: Progress,
    rounds: int = 5,
    whole: bool = True,
) -> CompileCost:
    """The cost of some functions in any engine: each alone, less the same module with a stub.

    The modules take turns, so that a change of the machine's speed meets all of
    them. ``whole`` also compiles the module itself, once for each tier.

    Raises
    ------
    WasmError
        When a function cannot be decoded, or the engine refuses the module.
    TargetError, PageError
        When the engine does not start, or is lost.
    """
    tiers: list[Compilation] = []
    failed: dict[int, str] = {}
    with tempfile.TemporaryDirectory(prefix="nnjit-wasm-") as folder:
        pairs = whole_file(_write_pairs, survey.path, functions, Path(folder))
        file = _copied(survey, Path(folder))
        flags = ISOLATION_V8 if engine.kind == "v8" else ()
        for tier in TIERS[engine.kind]:
            note(f"{engine.name} compiles {len(functions)} functions alone with {tier}.")
            # the first round warms up
            rows, _ = _drive(engine, Job(tier, pairs, rounds + 1, flags), note)
            costs, refused = _differences(functions, rows)
            failed |= refused
            compilation = Compilation(tier, "isolation", costs)
            if whole:
                note(f"{engine.name} compiles the whole module with {tier}.")
                job = Job(tier, [file], 1, flags)
                rows, peak = _drive(engine, job, note)
                whole_ms = _accepted(rows[0][0], tier)
                compilation = replace(compilation, whole_ms=whole_ms, peak_rss_bytes=peak)
            tiers.append(compilation)
    return CompileCost(engine.name, engine.version(), tuple(tiers), failed)


def _drive(engine: Engine, job: Job, note: Progress) -> tuple[list[Row], int | None]:
    """All rows of a job and the peak of memory that it took."""
    rows: list[Row] = []
    with contextlib.closing(engine.compile(job)) as running:
        while True:
            try:
                # JSON writes 22.0 as 22.
                row = next(running)
                rows.append([float(ms) if isinstance(ms, int) else ms for ms in row])
            except StopIteration as end:
                return rows, end.value
            if job.rounds > 1:
                note(f"  {job.tier}: round {len(rows)} of {job.rounds}")


def _accepted(ms: float | str | None, tier: str) -> float:
    if isinstance(ms, float):
        return ms
    raise WasmError(f"The engine does not compile the module with {tier}: {ms}")


def _by_function(seen: Sequence[Compiled]) -> dict[int, TierCost]:
    """The lines of one tier, with a sample for each round."""
    lines: dict[int, list[Compiled]] = {}
    for compiled in seen:
        lines.setdefault(compiled.index, []).append(compiled)
    return {
        index: TierCost(tuple(c.ms for c in own), own[-1].code_bytes, own[-1].memory_bytes)
        for index, own in lines.items()
    }


def _copied(survey: Survey, folder: Path) -> Path:
    """The file, which has to be the one that was surveyed."""
    copy = Path(shutil.copyfile(survey.path, folder / "module.wasm"))
    if hashlib.sha256(copy.read_bytes()).hexdigest() != survey.sha256:
        raise changed(survey.path)
    return copy


def _write_pairs(module: Module, functions: Sequence[int], folder: Path) -> list[Path]:
    """Each function alone, then its stub."""
    paths: list[Path] = []
    for index in functions:
        alone = isolate(module, index)
        paths += folder / f"{index}.wasm", folder / f"{index}.stub.wasm"
        for path, data in zip(paths[-2:], alone, strict=True):
            path.write_bytes(data)
    return paths


def _differences(
    functions: Sequence[int], rows: Sequence[Row]
) -> tuple[dict[int, TierCost], dict[int, str]]:
    """Samples of each function without its stub, and the words of the engine where it refused."""
    costs: dict[int, TierCost] = {}
    refused: dict[int, str] = {}
    for n, index in enumerate(functions):
        own, stub = ([row[at] for row in rows] for at in (2 * n, 2 * n + 1))
        if isinstance(own[0], str):
            refused[index] = own[0]
            continue
        # A slow function was compiled in the first round only, its stub in every round.
        both = zip(own, stub, strict=True)
        samples = [a - b for a, b in both if isinstance(a, float) and isinstance(b, float)]
        costs[index] = TierCost(tuple(samples[1:] or samples))
    return costs, refused
