"""Latency and memory of a model by the sizes of its open dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.records.estimate import Estimate
from nnjit_studio.support.tables import text_table


@dataclass(frozen=True)
class SizeRow:
    """One size: the time of a run with its interval, and what the size takes.

    ``first_ms`` is the first run at this size, ``wasm_bytes`` the linear memory of a page that
    runs this size alone, and ``live_bytes`` the most that tensors need at one step.
    """

    sizes: Mapping[str, int]
    time: Estimate
    first_ms: float
    wasm_bytes: int
    live_bytes: int


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

    def to_json(self) -> dict[str, Any]:
        return {"ok": True, **asdict(self)}

    def as_text(self) -> str:
        """A table, by the dimensions that change."""
        names = list(self.rows[0].sizes)
        changing = [n for n in names if len({row.sizes[n] for row in self.rows}) > 1] or names
        fixed = [f"{n}={self.rows[0].sizes[n]}" for n in names if n not in changing]
        columns = (*changing, "ms", "interval", "first run, ms", "memory, MiB", "tensors, MiB")
        cells = [
            (
                *(row.sizes[n] for n in changing), f"{row.time.ms:.3f}",
                f"{row.time.low:.3f} to {row.time.high:.3f}", f"{row.first_ms:.3f}",
                f"{row.wasm_bytes / 2**20:.1f}", f"{row.live_bytes / 2**20:.1f}",
            )
            for row in self.rows
        ]  # fmt: skip
        with_fixed = f" at {', '.join(fixed)}" if fixed else ""
        head = f"{self.model}{with_fixed}, {self.target}, {self.tier}, threads {self.threads}"
        about = f"Medians of {self.rows[0].time.count} runs, taken in turns."
        return "\n".join([head, "", text_table(columns, cells, left=()), "", about, *self.notes])
