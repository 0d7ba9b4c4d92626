"""Two profiles of a model side by side: what became faster, what slower."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.analysis.profile.records import ModelProfile, StepProfile
from nnjit_studio.errors import UserError
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER
from nnjit_studio.support.tables import csv_text, text_table
from nnjit_studio.verdict.text import milliseconds


@dataclass(frozen=True)
class StepDelta:
    """A step in both profiles; a side is None where the other alone has it."""

    node: str
    workload: str
    before_ms: float | None
    after_ms: float | None
    gain_ms: float
    """What the second profile saves: positive is faster."""
    ratio: float | None
    """First over second, above 1 is faster; None where a side is missing or took no time."""
    told_apart: bool
    """Whether the medians are further apart than half of both interquartile ranges."""

    @property
    def outcome(self) -> str:
        """``faster``, ``slower`` or ``not told apart``."""
        return (FASTER if self.gain_ms > 0 else SLOWER) if self.told_apart else NOT_TOLD_APART


@dataclass(frozen=True)
class Comparison:
    """``steps`` by gain, the largest first."""

    model: str
    before: str
    after: str
    before_ms: float
    after_ms: float
    steps: tuple[StepDelta, ...]
    told_apart: bool
    """Whether the intervals of both times exclude each other; the runs were not in turns."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.before_ms / self.after_ms if self.after_ms else None}


def load(path: Path) -> ModelProfile:
    """A profile that ``nnjit profile --save`` or ``--json`` wrote.

    Raises
    ------
    UserError
        When the file cannot be read or is none.
    """
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError as e:
        raise UserError(f"There is no file {str(path)!r}.", "Check the path.") from e
    except (OSError, ValueError) as e:
        raise UserError(
            f"{str(path)!r} is no profile: it is not JSON.",
            "Write one with `nnjit profile MODEL --save FILE`.",
        ) from e
    return ModelProfile.from_json(data)


def compare(before: ModelProfile, after: ModelProfile) -> Comparison:
    """Steps are matched by node and workload, then by node, then by workload in order."""
    rows = [_delta(a, b) for a, b in _pairs(before.steps, after.steps)]
    rows.sort(key=lambda row: -row.gain_ms)
    old, new = before.warm.estimate, after.warm.estimate
    known = before.warm.high_ms and after.warm.high_ms  # older files have no interval
    apart = bool(known) and (old.high < new.low or new.high < old.low)
    labels = _label(before), _label(after)
    return Comparison(after.model, *labels, old.ms, new.ms, tuple(rows), apart)


def _label(profile: ModelProfile) -> str:
    threads = "" if profile.threads == 1 else f", {profile.threads} threads"
    return f"{profile.target}, {profile.tier}{threads}"


def _pairs(
    before: Sequence[StepProfile], after: Sequence[StepProfile]
) -> Iterator[tuple[StepProfile | None, StepProfile | None]]:
    left, right = list(before), list(after)
    keys = (
        lambda s: (s.node, s.workload),
        lambda s: s.node,
        lambda s: s.workload,
    )
    for key in keys:
        waiting: dict[Any, list[StepProfile]] = {}
        for step in right:
            waiting.setdefault(key(step), []).append(step)
        unmatched = []
        for step in left:
            twins = waiting.get(key(step))
            if twins:
                yield step, twins.pop(0)
            else:
                unmatched.append(step)
        left = unmatched
        right = [step for twins in waiting.values() for step in twins]
    yield from ((step, None) for step in left)
    yield from ((None, step) for step in right)


def _delta(before: StepProfile | None, after: StepProfile | None) -> StepDelta:
    known = after or before
    assert known is not None
    old, new = before.ms if before else None, after.ms if after else None
    apart = False
    if before is not None and after is not None:
        apart = abs(before.ms - after.ms) > (before.iqr_ms + after.iqr_ms) / 2
    return StepDelta(
        known.node,
        known.workload,
        old,
        new,
        (old or 0.0) - (new or 0.0),
        old / new if old is not None and new else None,
        apart,
    )


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
COLUMNS = ("step", "workload", "before ms", "after ms", "gain ms", "ratio")


def _cells(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    for row in comparison.steps:
        yield (
            row.node,
            row.workload,
            "" if row.before_ms is None else f"{row.before_ms:.4f}",
            "" if row.after_ms is None else f"{row.after_ms:.4f}",
            f"{row.gain_ms:+.4f}",
            "" if row.ratio is None else f"{row.ratio:.3f}",
        )


def as_csv(comparison: Comparison) -> str:
    # A spreadsheet runs what begins like a formula; names come from a stranger's file.
    rows = (
        [f"'{cell}" if i < 2 and cell.startswith(FORMULA) else cell for i, cell in enumerate(row)]
        for row in _cells(comparison)
    )
    return csv_text(COLUMNS, rows)


def as_markdown(comparison: Comparison) -> str:
    lines = [headline(comparison), "", f"| {' | '.join(COLUMNS)} |", "|---|---|--:|--:|--:|--:|"]
    for row in _cells(comparison):
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)


def as_text(comparison: Comparison) -> str:
    """A table for people: the largest gains first, losses last."""
    rows = (
        (node[-34:], workload[:46], old or "-", new or "-", gain, ratio or "-")
        for node, workload, old, new, gain, ratio in _cells(comparison)
    )
    lines = [headline(comparison), "", text_table(COLUMNS, rows, left=(0, 1))]
    kinds = Counter("one side only" if r.ratio is None else r.outcome for r in comparison.steps)
    lines += ["", ", ".join(f"{count} {kind}" for kind, count in kinds.items()) + "."]
    return "\n".join(lines)


def headline(comparison: Comparison) -> str:
    """Both times, what they were taken on, and how much faster the second is, if that is known."""
    c = comparison
    outcome = NOT_TOLD_APART
    if c.told_apart and c.after_ms:
        outcome = f"{c.before_ms / c.after_ms:.2f} times as fast"
    times = f"{milliseconds(c.before_ms)} ({c.before}) to {milliseconds(c.after_ms)} ({c.after})"
    return f"{c.model}: {times}, {outcome}"
