"""Builds of a library's module in turns in one page, case after case, place after place."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.engine.pages.opening import Opening
from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.errors import PageError, TargetError
from nnjit_studio.foreign_wasm.turbo.gate.gain import gain_of
from nnjit_studio.foreign_wasm.turbo.models import ModelRun, differences, run_model, runtime_of
from nnjit_studio.foreign_wasm.turbo.speed.cases import DEFAULT, case_of
from nnjit_studio.foreign_wasm.turbo.speed.result import Compared
from nnjit_studio.foreign_wasm.turbo.speed.tensorflow import CASES, is_tensorflow, run_operators
from nnjit_studio.support.stopping import check

ORIGINAL = "original"
POLICY = RoundsPolicy(rounds=21, min_sample_ms=5.0, warmup_ms=700.0, max_warmup_ms=6000.0)


@dataclass(frozen=True)
class CaseRun:
    """A case that ran; ``flops`` is 0 where they are not counted."""

    name: str
    flops: int
    threads: int
    run: ModelRun


def case_names(original: Path) -> list[str]:
    """All cases that a library's module is compared on by default."""
    return list(CASES if is_tensorflow(original) else DEFAULT)


def run_cases(
    original: Path,
    builds: Mapping[str, Path],
    cases: Sequence[str],
    threads: Sequence[int],
    opening: Opening,
    folder: Path,
    policy: RoundsPolicy | None,
) -> Iterator[CaseRun]:
    """Each case with the original and all builds.

    Raises
    ------
    UserError, TargetError, PageError
    """
    every = {ORIGINAL: original, **builds}
    if is_tensorflow(original):
        for told in run_operators(original, every, cases, opening, folder, policy):
            yield CaseRun(*told)
        return
    runtime = runtime_of(original)
    for name in cases:
        case = case_of(name, folder)
        for count in threads:
            run = run_model(runtime, every, case.model, case.feeds, opening, count, policy)
            yield CaseRun(case.name, case.flops, count, run)


def compared(
    original: Path,
    builds: Mapping[str, Path],
    cases: Sequence[str],
    places: Mapping[str, Opening],
    folder: Path,
) -> Iterator[Compared]:
    """A row for each case, place and build, on one thread; a place that fails ends no other.

    Raises
    ------
    UserError
        When the module is of no library that can be run.
    """
    for case in cases:
        for place, opening in places.items():
            try:
                (found,) = run_cases(original, builds, [case], [1], opening, folder, POLICY)
            except (PageError, TargetError) as error:
                check()
                yield Compared(case, place, problem=str(error))
                continue
            for build in builds:
                yield _compared(found, place, build)


def _compared(found: CaseRun, place: str, build: str) -> Compared:
    run = found.run
    before, after = run.samples_ms[ORIGINAL], run.samples_ms[build]
    return Compared(
        found.name,
        place,
        build,
        statistics.median(before),
        statistics.median(after),
        gain_of(before, after),
        max(differences(run, build, ORIGINAL).values()),
    )
