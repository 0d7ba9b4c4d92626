"""A model at several sizes of its open dimensions, from one import, in one page."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.analysis.profile.sizes import SizeRow, SizesProfile
from nnjit_studio.errors import UserError
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.memory import forecast
from nnjit_studio.records import KernelKey
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.records.outcomes import COMPARED
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.tuner.events import Failed, RoundDone
from nnjit_studio.verdict.measure import Visits
from nnjit_studio.workbench.inputs.sizes import sized
from nnjit_studio.workbench.jobs.alone import forms_of_sizes, with_alone
from nnjit_studio.workbench.jobs.size_tuning import (
    TUNING_SHARE,
    compare_sizes,
    comparing_clock,
    heaviest,
    shares_of,
)
from nnjit_studio.workbench.jobs.timing import PROFILE_RUNS, STEP_QUANTA, WARM_MS
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import size_name
from nnjit_studio.workbench.workbench import Workbench

WARM_RUNS, MOST_WARM_RUNS = 10, 1000


@dataclass(frozen=True)
class SizesEffort:
    """What is done for several sizes beyond measuring them."""

    seconds: float = 0.0
    """Of tuning before."""
    shares: tuple[float, ...] = ()
    """How often each size runs; all as often when empty."""
    visits: Visits | None = None
    """Pages in which each size is compared with a bundle for it alone; None compares none."""


AS_IT_IS = SizesEffort()


def profile_sizes(
    bench: Workbench,
    path: Path,
    wanted: Mapping[str, Sequence[int]],
    feeds: Feeds | None = None,
    on_phase: OnPhase = quiet,
    runs: int = PROFILE_RUNS,
    effort: SizesEffort = AS_IT_IS,
) -> SizesProfile:
    """Run a model at several sizes in turns, each with its best known kernels.

    Parameters
    ----------
    wanted, feeds
        As of :func:`nnjit_studio.workbench.inputs.sizes.sized`.
    effort
        Its seconds are of tuning the kernels of all sizes before, in equal parts, and of comparing
        settings at all of them for a bundle for any size; its pages are not used.

    Raises
    ------
    ModelError, UserError
        When sizes and model do not fit together; when it was cancelled.
    PageError, CompileError
    """
    page, model = bench.page, bench.model
    given = None if feeds is None else dict(feeds)
    at = sized(page.process.survey(path), wanted, given)
    shares = shares_of(effort.shares, len(at)) if effort.shares else ()
    opened, notes = bench.open_sizes(path, [each.arrays for each in at], on_phase)
    if effort.seconds:
        notes += _tune(bench, effort, on_phase)
    programs = [(size_name(i), each.arrays) for i, each in enumerate(at)]
    with page.cancellable("Measuring the sizes", on_phase) as phase:
        with page.compiler_killed_on_cancel():
            model.register_best(phase)
        first, times = _timed(model, programs, runs, phase)
    rows = []
    for i, (each, samples, first_ms) in enumerate(zip(at, times, first, strict=True)):
        found = forecast(opened.program(size_name(i)).plan)
        rows.append(
            SizeRow(
                each.sizes, Estimate.of(samples), first_ms, found.wasm_bytes, found.peak_live_bytes,
                shares[i] if shares else None, *_tuned(model, i),
            )
        )  # fmt: skip
    device = page.connect()
    facts = device.target, device.user_agent, device.threads, device.best_tier
    return SizesProfile(opened.graph.name, *facts, tuple(rows), notes)


def _tuned(model: ModelOnPage, position: int) -> tuple[int, int]:
    """Kernels of a size whose settings were measured, and kernels with settings."""
    page = model.page
    device = page.connect()
    tunable = [w for w in model.current.program(size_name(position)).workloads if w.tunable]
    keys = [KernelKey.of(w, device, device.best_tier, page.compiler.version) for w in tunable]
    measured = (any(r.state in COMPARED for r in page.database.records(key)) for key in keys)
    return sum(measured), len(tunable)


def _timed(
    model: ModelOnPage, programs: Sequence[tuple[str, Feeds]], runs: int, on_phase: OnPhase
) -> tuple[list[float], list[list[float]]]:
    """Milliseconds of each program's first run, then those of many, in turns."""
    on_phase("warming up")
    least_ms = STEP_QUANTA * model.page.connect().timer_quantum_ms

    def sample(i: int, count: int) -> float:
        """Mean of so many runs: a run that is shorter than the page's clock tells has no time."""
        return sum(model.infer_on(*programs[i], count).runs_ms) / count

    first, counts = [], []
    for i in range(len(programs)):
        first.append(sample(i, 1))
        sample(i, max(2, min(MOST_WARM_RUNS, round(WARM_MS / max(first[i], 0.1)))))
        once = max(sample(i, WARM_RUNS), least_ms / MOST_WARM_RUNS)
        counts.append(max(1, math.ceil(least_ms / once)))
    times: list[list[float]] = [[] for _ in programs]
    for turn in range(runs):
        on_phase("timing every size, in turns")
        for k in range(len(programs)):
            i = (turn + k) % len(programs)
            times[i].append(sample(i, counts[i]))
    return first, times


def profile_sizes_beside(
    bench: Workbench,
    path: Path,
    wanted: Mapping[str, Sequence[int]],
    effort: SizesEffort = AS_IT_IS,
    on_phase: OnPhase = quiet,
) -> SizesProfile:
    """As :func:`profile_sizes`, with the inputs of the open model, which is put back afterwards,
    unless the page has ended; then each size in turns with a bundle for it alone, where pages are
    given for that and the model runs in Wasm.

    Raises
    ------
    ModelError, UserError, PageError, CompileError
    """
    model, visits = bench.model, effort.visits
    feeds, events = dict(model.feeds), model.events
    with tempfile.TemporaryDirectory(prefix="nnjit-sizes-") as name:
        folder, forms, inputs = Path(name), [], []
        try:
            found = profile_sizes(bench, path, wanted, feeds, on_phase, effort=effort)
            if visits is not None and not bench.page.backend.is_gpu:
                at = sized(bench.page.process.survey(path), wanted, feeds)
                inputs = [each.arrays for each in at]
                forms = forms_of_sizes(model, inputs, folder)
        finally:
            if not bench.page.ended:
                bench.open_model(path, on_phase, feeds)
                model.events = events
        if visits is None or not forms:
            return found
        return with_alone(model, found, forms, inputs, folder, visits, on_phase)


def _tune(bench: Workbench, effort: SizesEffort, on_phase: OnPhase) -> tuple[str, ...]:
    """What a user should know of it."""
    opened, rounds, seconds = bench.model.current, 0, effort.seconds
    compares = bool(opened.families) and not bench.page.backend.is_gpu
    clock = comparing_clock(bench, seconds)
    for event in bench.tuning.start(seconds * TUNING_SHARE if compares else seconds):
        if isinstance(event, Failed):
            raise event.cause
        if isinstance(event, RoundDone):
            rounds += 1
            on_phase(f"tuning every size, {rounds} rounds so far")
    if bench.page.cancelled:
        raise UserError("Tuning the sizes was cancelled.")
    if not compares:
        return ()
    shares = shares_of(effort.shares, len(opened.programs))
    kernels, left = compare_sizes(bench.model, shares, heaviest(opened, shares), clock, on_phase)
    compared = f"Settings of {len(kernels)} kernels were compared at all sizes, for bundles."
    return (compared, f"There was no time for {len(left)} more.") if left else (compared,)
