"""One tuning for many sizes: at the size where most time goes, then what is best compared at all.

The kernel database keeps what settings are worth at each size, under a key that is the same in
every model; a bundle for any size takes its settings from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from nnjit_studio.analysis.tuned_sizes import TunedSizes
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.model.family import Family
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records import KernelKey
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, Candidate
from nnjit_studio.records.size_tuning import SizeTuning
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.tuner import TuningContext
from nnjit_studio.tuner.events import Event, Failed
from nnjit_studio.tuner.queue import References
from nnjit_studio.tuner.session_clock import SessionClock
from nnjit_studio.tuner.sizes.comparison import Comparison, Place
from nnjit_studio.workbench.inputs.sizes import sized
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import OpenModel, size_name
from nnjit_studio.workbench.page import SystemClock
from nnjit_studio.workbench.spare_kernels import best_measured
from nnjit_studio.workbench.stored_best import stored_best
from nnjit_studio.workbench.workbench import Workbench

TUNING_SHARE = 0.6
"""Of the time, for the one size."""
MOST = 4
"""Settings that were best at that size, which are compared at the others."""
LEAST_SHARE = 0.002
"""Of a model's work: a kernel with less is not compared."""


def tune_sizes(
    bench: Workbench,
    path: Path,
    wanted: Mapping[str, Sequence[int]],
    shares: Sequence[float] = (),
    seconds: float = 60.0,
    feeds: Feeds | None = None,
    on_phase: OnPhase = quiet,
) -> Generator[Event, None, TunedSizes]:
    """Tune a model at one size, and choose settings for all; yields the events of the session.

    Parameters
    ----------
    wanted, feeds
        As of :func:`nnjit_studio.workbench.inputs.sizes.sized`.
    shares
        How often each size runs; all as often when empty.
    seconds
        Of tuning and comparing. A kernel for which no time is left is not compared.

    Raises
    ------
    ModelError, UserError
        When sizes, shares and model do not fit together; when it was cancelled.
    PageError, CompileError
    """
    page, model = bench.page, bench.model
    if page.backend.is_gpu:
        raise UserError(
            "Kernels of a GPU for any size take no tuned settings.", "Tune in Wasm: --backend wasm."
        )
    at = sized(page.process.survey(path), wanted, None if feeds is None else dict(feeds))
    shares = shares_of(shares, len(at))
    opened, notes = bench.open_sizes(path, [each.arrays for each in at], on_phase)
    tuned, clock = heaviest(opened, shares), comparing_clock(bench, seconds)
    for event in bench.tuning.start(seconds * TUNING_SHARE, program=size_name(tuned)):
        yield event
        if isinstance(event, Failed):
            raise event.cause
    if page.cancelled:
        raise UserError("Tuning the sizes was cancelled.")
    kernels, left = compare_sizes(model, shares, tuned, clock, on_phase)
    sizes = tuple(each.sizes for each in at)
    return TunedSizes(opened.graph.name, sizes, shares, sizes[tuned], kernels, left, notes)


def comparing_clock(bench: Workbench, seconds: float) -> SessionClock:
    """Of a budget that begins now, nothing of which is kept for the end."""
    clock = SessionClock(SystemClock(), lambda: bench.page.cancelled, seconds=seconds)
    clock.timing_s = 0.0
    return clock


def heaviest(opened: OpenModel, shares: Sequence[float]) -> int:
    """The size at which most work is done."""
    works = (_work(opened.program(size_name(i))) for i in range(len(shares)))
    work = [share * each for share, each in zip(shares, works, strict=True)]
    return work.index(max(work))


def shares_of(runs: Sequence[float], count: int) -> tuple[float, ...]:
    """The share of all runs that each of so many sizes has; equal ones where nothing is said.

    Raises
    ------
    UserError
        When they are not as many, or none is above 0.
    """
    runs = runs or (1.0,) * count
    if len(runs) != count or min(runs) < 0 or not sum(runs):
        raise UserError(
            f"{count} sizes have {len(runs)} shares.",
            "Give one for each size, in their order; one at least is above 0.",
        )
    return tuple(each / sum(runs) for each in runs)


def compare_sizes(
    model: ModelOnPage,
    shares: Sequence[float],
    tuned: int,
    clock: SessionClock,
    on_phase: OnPhase,
) -> tuple[tuple[SizeTuning, ...], tuple[str, ...]]:
    """Compare what is known to be fast at one size, or won at another, at all sizes of the model.

    Parameters
    ----------
    shares
        Of all runs, by size.
    tuned
        The size whose best settings are compared.
    clock
        Its budget is that of tuning and comparing: a kernel that is not done by then is left.

    Returns
    -------
    tuple
        What was found of each kernel, most work first, and the names of those that were left.

    Raises
    ------
    UserError
        When the model has no kernels for all sizes, or it was cancelled.
    PageError, CompileError
    """
    page, opened = model.page, model.current
    if not opened.families:
        raise UserError(
            "No kernel of the model with settings to choose is one at all of these sizes.",
            "Tune one size with --dim.",
        )
    works = {w.key: w.uses * w.flops for w in opened.workloads}
    whole = _work(opened.program(size_name(tuned)))
    by_work = sorted(opened.families, key=lambda f: -works[f.at[tuned]])
    wanted = [f for f in by_work if works[f.at[tuned]] >= LEAST_SHARE * whole]
    found: list[SizeTuning] = []
    left: list[str] = []
    with (
        page.cancellable("Comparing settings", on_phase) as phase,
        References(page.compiler) as references,
    ):
        device = page.connect()
        context = TuningContext(page.runner, page.compiler, page.database, device, SystemClock())
        for number, family in enumerate(wanted, 1):
            if clock.stop():
                left.append(family.name)
                continue
            places, before = _places(model, family, shares, tuned)
            comparison = Comparison(family, places, context, clock, references)
            with page.compiler_killed_on_cancel():
                for place, _ in comparison.run():
                    at = place.workload.dims[family.axis]
                    phase(f"comparing settings of kernel {number} of {len(wanted)} at {at}")
            if not comparison.complete:
                left.append(family.name)
                continue
            found.append(comparison.result(before))
            page.database.commit_size_tuning(found[-1])
    return tuple(found), tuple(left)


def _places(
    model: ModelOnPage, family: Family, shares: Sequence[float], tuned: int
) -> tuple[list[Place], str]:
    """The sizes of a kernel, ascending, with all settings that are compared there; and those of
    them that won at most sizes before."""
    page, known = model.page, {w.key: w for w in model.current.workloads}
    order = sorted(range(len(family.at)), key=lambda i: known[family.at[i]].dims[family.axis])
    workloads = [known[family.at[i]] for i in order]
    device, keys = page.connect(), [w.key for w in workloads]
    guesses = page.process.settings_at(keys, DEFAULT_SETTINGS)
    key = KernelKey.of(known[family.at[tuned]], device, device.best_tier, page.compiler.version)
    best = best_measured(page.database.records(key))[:MOST]
    here = page.here(page.backend)
    won = [stored_best(page.database, w, here) for w in workloads]
    winners = Counter(each for each in won if isinstance(each, Candidate))
    tiles: dict[str, tuple[str, ...]] = {}
    # The one that won most goes first, so that it is none of those that come to the same tile.
    for tile in (*(each for each, _ in winners.most_common()), *best):
        try:
            made = page.process.settings_at(keys, str(tile))
        except NnjitError:
            continue  # it suits its own size alone
        if made != guesses and made not in tiles.values():
            tiles[str(tile)] = made
    before = next((str(each) for each, _ in winners.most_common(1)), DEFAULT_SETTINGS)
    return [
        Place(
            workload,
            shares[order[i]],
            Candidate.parse(guesses[i]),
            {name: Candidate.parse(made[i]) for name, made in tiles.items()},
        )
        for i, workload in enumerate(workloads)
    ], before if before in tiles else DEFAULT_SETTINGS


def _work(model: ImportedModel) -> int:
    return sum(w.uses * w.flops for w in model.workloads)
