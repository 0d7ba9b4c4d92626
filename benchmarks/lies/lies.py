"""The lie test: sessions on a busy machine, and each ratio that they showed taken again quietly.

A lie is a speed-up or a slow-down whose interval does not hold what a quiet machine finds for the
same kernels. The headline of old, the last inference by the first, is judged by the same runs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drawn_first import DrawnFirst, draw

from nnjit_studio.bench.report import Report, Table
from nnjit_studio.errors import CompileError
from nnjit_studio.records import Kernel
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.estimate import Ratio
from nnjit_studio.records.gain import UNCHANGED, ModelGain
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.tuner import TuneOptions
from nnjit_studio.tuner.events import Event, Failed, ModelCompared, ModelTimed, Swapped
from nnjit_studio.tuner.whole.machine import Machine, forbids_ratio
from nnjit_studio.tuner.whole.pairs import ModelPairs
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.tuning import session_of

QUIET_PAIRS = 40
LATEST = 3
"""Sets of kernels of a session that are repeated: the last ones that a ratio was shown for."""
_SPIN = "while True: pass"

Kernels = tuple[tuple[str, str], ...]
"""Workload and settings of every kernel that is not the first one."""


@dataclass(frozen=True)
class Shown:
    """A ratio that a session showed, and the kernels that it was of."""

    gain: ModelGain
    kernels: Kernels


@dataclass(frozen=True)
class BusySession:
    """A session among busy processes: enough to repeat at another time what it showed."""

    model: str
    told: str
    """The last outcome of its gain."""
    shown: tuple[Shown, ...]
    old_ratio: float | None
    """The headline of old at its end."""

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> BusySession:
        """Of what ``asdict`` made of one, and JSON of that."""
        shown = [
            Shown(ModelGain(**one["gain"]), tuple((w, s) for w, s in one["kernels"]))
            for one in kept["shown"]
        ]
        return cls(**{**kept, "shown": tuple(shown)})


@dataclass(frozen=True)
class Judged:
    """A shown ratio after its repetition on the quiet machine."""

    model: str
    shown: ModelGain
    quiet: Ratio
    level: float | None
    old_ratio: float | None
    """The headline of old at the end of the session; None of other moments."""

    @property
    def valid(self) -> bool:
        """Whether the machine was quiet enough to judge."""
        return self.quiet.known and not forbids_ratio(self.level)

    @property
    def lie(self) -> bool:
        """Whether the shown interval excludes what the quiet machine finds."""
        assert self.shown.low is not None and self.shown.high is not None
        return self.shown.told_apart and not self.shown.low <= self.quiet.value <= self.shown.high

    @property
    def old_lie(self) -> bool:
        """Whether the quiet interval excludes the headline of old."""
        return self.old_ratio is not None and not (
            self.quiet.low <= self.old_ratio <= self.quiet.high
        )


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many programs that do nothing but take a core."""
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
        for process in spinning:
            process.wait()


def ratios_shown(events: Sequence[Event]) -> list[Shown]:
    """The last gain with an interval of every set of kernels, in order."""
    kernels: dict[str, str] = {}
    found: dict[Kernels, ModelGain] = {}
    for event in events:
        if isinstance(event, Swapped):
            kernels[event.workload] = event.candidate
        elif isinstance(event, ModelCompared) and event.gain.interval:
            changed = sorted((w, s) for w, s in kernels.items() if s != DEFAULT_SETTINGS)
            found[tuple(changed)] = event.gain
    return [Shown(gain, which) for which, gain in found.items()]


def old_headline(events: Sequence[Event]) -> float | None:
    """The first timing by the last inference, as the header had it."""
    timed = [e for e in events if isinstance(e, ModelTimed)]
    return timed[0].ms / timed[-1].runs_ms[-1] if len(timed) > 1 else None


def open_for_lies(bench: Workbench, path: Path, seed: int | None = None) -> None:
    """Open a model; with a ``seed`` its first kernels are drawn from the lite space.

    Raises
    ------
    ModelError, UserError, PageError
    """
    opened = bench.open_model(path)
    if seed is not None:
        page, now = bench.page, bench.compiler
        drawn = draw(opened.workloads, opened.packable, page.connect(), seed)
        page.compiler = DrawnFirst(now.process, now.version, now.passes_off, drawn)


def busy_session(bench: Workbench, seconds: float, processes: int) -> BusySession:
    """One cold session on the model that :func:`open_for_lies` opened, among busy processes.

    Raises
    ------
    CompileError, PageError
        When the session fails.
    """
    with busy(processes):
        events = list(session_of(bench.model, TuneOptions(seconds=seconds)).run())
    if isinstance(events[-1], Failed):
        raise CompileError(events[-1].error["error"], events[-1].error["hint"])
    outcomes = [e.gain.outcome for e in events if isinstance(e, ModelCompared)]
    return BusySession(
        bench.model.current.graph.name,
        outcomes[-1] if outcomes else UNCHANGED,
        tuple(ratios_shown(events)[-LATEST:]),
        old_headline(events),
    )


def repeat(bench: Workbench, session: BusySession) -> list[Judged]:
    """Its ratios, taken again by the same model on a machine that should be quiet now.

    Raises
    ------
    CompileError, PageError
        When that fails.
    """
    judged = []
    for place, each in enumerate(session.shown, 1):
        quiet, level = _repeated(bench, each.kernels)
        last = session.old_ratio if place == len(session.shown) else None
        judged.append(Judged(session.model, each.gain, quiet, level, last))
    return judged


def _repeated(bench: Workbench, kernels: Kernels) -> tuple[Ratio, float | None]:
    model = bench.model
    tier = bench.page.connect().best_tier
    runner = model.page.runner
    first = [_kernel(bench, workload, DEFAULT_SETTINGS, tier) for workload, _ in kernels]
    tuned = [_kernel(bench, workload, settings, tier) for workload, settings in kernels]
    machine = Machine(lambda: runner.pulse(tier), bench.page.connect().peak_gflops.get(tier))
    pairs = ModelPairs(runner, model.feeds, machine)
    run_ms = statistics.median(model.infer(3).runs_ms)
    for _ in range(QUIET_PAIRS):
        pairs.take(first, tuned, run_ms)
    return Ratio.of(pairs.first_ms, pairs.tuned_ms), machine.level


def _kernel(bench: Workbench, workload: str, settings: str, tier: str) -> Kernel:
    candidate = None if settings == DEFAULT_SETTINGS else parse_candidate(settings)
    result = bench.compiler.compile(bench.model.workload(workload), candidate, (tier,))
    if result.error:
        raise CompileError(f"{workload} does not compile: {result.error}")
    return result.kernels[0]


def counts(judged: Sequence[Judged], sessions: Sequence[BusySession]) -> dict[str, Any]:
    """Sessions, ratios that were shown, and lies, of now and of old."""
    valid = [j for j in judged if j.valid]
    told = [j for j in valid if j.shown.told_apart]
    old = [j for j in valid if j.old_ratio is not None]
    return {
        "sessions": len(sessions),
        "shown": sum(j.shown.told_apart for j in judged),
        "judged": len(told),
        "lies": sum(j.lie for j in told),
        "old_judged": len(old),
        "old_lies": sum(j.old_lie for j in old),
        "too_busy": sum(s.told == "machine too busy" for s in sessions),
        "not_told_apart": sum(s.told == "not told apart" for s in sessions),
    }


def lies_report(result: Mapping[str, Any]) -> Report:
    """Every ratio with its repetition, and the counts."""
    head = ["model", "shown", "interval", "quiet", "interval", "level", "lie", "header of old"]
    rows = []
    for row in result["rows"]:
        shown, quiet = row["shown"], row["quiet"]
        rows.append(
            [
                row["model"], f"{shown['ratio']:.3f}", f"{shown['low']:.3f}..{shown['high']:.3f}",
                f"{quiet['value']:.3f}", f"{quiet['low']:.3f}..{quiet['high']:.3f}",
                "" if row["level"] is None else f"{row['level']:.2f}",
                "lie" if row["lie"] else "", f"{row['old_ratio']:.2f}" if row["old_ratio"] else "",
            ]
        )  # fmt: skip
    c = result["counts"]
    text = (
        f"{c['lies']} lies among {c['judged']} ratios of {c['sessions']} sessions; the header of "
        f"old would have told {c['old_lies']} of {c['old_judged']}. {c['too_busy']} sessions ended "
        f"too busy for a ratio, {c['not_told_apart']} not told apart."
    )
    about = (
        f"`make lie-test`: {result['processes']} busy processes, {result['seconds']:.0f} s each, "
        f"first kernels {'drawn from the lite space' if result['drawn'] else 'by the rules'}."
    )
    return Report(result, "Lie test", about, [Table(head, rows), text])


def as_row(judged: Judged) -> dict[str, Any]:
    """Plain values of a judged ratio."""
    told = {"lie": judged.valid and judged.lie, "valid": judged.valid}
    return {**asdict(judged), **told, "old_lie": judged.valid and judged.old_lie}
