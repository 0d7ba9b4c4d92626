"""Latency and memory of a model by the sizes of its open dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.records.estimate import Estimate
from nnjit_studio.support.tables import text_table
from nnjit_studio.verdict.figures import Interval


@dataclass(frozen=True)
class SizeRow:
    """One size: the time of a run with its interval, and what the size takes.

    ``first_ms`` is the first run at this size, ``wasm_bytes`` the linear memory of a page that
    runs this size alone, and ``live_bytes`` the most that tensors need at one step. ``share`` is
    that of all runs, None where nothing is said of it. Of the ``tunable`` kernels, so many as
    ``tuned`` have settings that were measured at this size. ``alone`` is how many times as fast a
    bundle for this size alone is, in turns with a bundle of this import's plan; None where that was
    not measured, or too few pairs tell.
    """

    sizes: Mapping[str, int]
    time: Estimate
    first_ms: float
    wasm_bytes: int
    live_bytes: int
    share: float | None = None
    tuned: int = 0
    tunable: int = 0
    alone: Interval | None = None

    @property
    def alone_ms(self) -> float | None:
        """The time of a bundle for this size alone, from the ratio to this import's."""
        return self.time.ms / self.alone.median if self.alone else None


@dataclass(frozen=True)
class SizesProfile:
    """All sizes of one import, measured in turns in one page."""

    model: str
    target: str
    user_agent: str
    threads: int
    tier: str
    rows: tuple[SizeRow, ...]
    notes: tuple[str, ...]
    """What a user should know: dimensions that turned out fixed, sizes imported for themselves."""

    @property
    def mean_ms(self) -> float | None:
        """Of a run, at sizes as often as they come."""
        shares = [row.share for row in self.rows]
        if None in shares:
            return None
        return sum(row.time.ms * (row.share or 0.0) for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {"ok": True, **asdict(self)}

    def as_text(self) -> str:
        """A table, by the dimensions that change."""
        names = list(self.rows[0].sizes)
        changing = [n for n in names if len({row.sizes[n] for row in self.rows}) > 1] or names
        fixed = [f"{n}={self.rows[0].sizes[n]}" for n in names if n not in changing]
        shares = any(row.share is not None for row in self.rows)
        alone = any(row.alone for row in self.rows)
        columns = (
            *changing, "ms", "interval", "first run, ms", "memory, MiB", "tensors, MiB",
            *["share"] * shares, *["one size alone"] * alone,
        )  # fmt: skip
        cells = [
            (
                *(row.sizes[n] for n in changing), f"{row.time.ms:.3f}",
                f"{row.time.low:.3f} to {row.time.high:.3f}", f"{row.first_ms:.3f}",
                f"{row.wasm_bytes / 2**20:.1f}", f"{row.live_bytes / 2**20:.1f}",
                *[f"{100 * (row.share or 0):.1f} %"] * shares, *[_times(row.alone)] * alone,
            )
            for row in self.rows
        ]  # fmt: skip
        with_fixed = f" at {', '.join(fixed)}" if fixed else ""
        head = f"{self.model}{with_fixed}, {self.target}, {self.tier}, threads {self.threads}"
        about = f"Medians of {self.rows[0].time.count} runs, taken in turns."
        return "\n".join([head, "", text_table(columns, cells, left=()), "", about, *self.notes])


def _times(alone: Interval | None) -> str:
    return f"{alone.median:.2f}x, {alone.low:.2f} to {alone.high:.2f}" if alone else ""
