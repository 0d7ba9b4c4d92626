"""What one tuning for many sizes found, for a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.size_tuning import SizeTuning, Table
from nnjit_studio.support.tables import text_table

FIRST_GUESS: Table = ((None, DEFAULT_SETTINGS),)
ABOUT = (
    "The gain is over the first guess, over runs as often as each size comes; "
    "`nnjit export` takes these settings for a bundle for any size."
)

NAMED = 3
"""Kernels without time that are named; --json names all."""


@dataclass(frozen=True)
class TunedSizes:
    """Settings of a model's kernels that were compared at several sizes."""

    model: str
    sizes: tuple[Mapping[str, int], ...]
    """Of the open dimensions."""
    shares: tuple[float, ...]
    """Share of all runs that each size stands for."""
    tuned: Mapping[str, int]
    """The size at which settings were searched for."""
    kernels: tuple[SizeTuning, ...]
    """Most work first."""
    left: tuple[str, ...]
    """Names of kernels for which there was no time."""
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"event": "sizes", **asdict(self), "kernels": [*map(kernel_json, self.kernels)]}

    def as_text(self) -> str:
        """A line for each kernel and interval."""
        shares = ", ".join(
            f"{'x'.join(map(str, each.values()))} ({share:.0%})"
            for each, share in zip(self.sizes, self.shares, strict=True)
        )
        head = f"{self.model}: settings compared at {shares}"
        notes = (ABOUT, *([_left(self.left)] if self.left else ()), *self.notes)
        return "\n".join([head, "", tables_text(self.kernels), "", *notes])


def _left(names: Sequence[str]) -> str:
    """What there was no time for, the heaviest by name."""
    more = len(names) - NAMED
    named = ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"There was no time for {len(names)} kernels: {named}. More --seconds reach them."


def kernel_json(kernel: SizeTuning) -> dict[str, Any]:
    """What was measured of a kernel, and what follows from it."""
    table = [{"up_to": end, "settings": settings} for end, settings in kernel.table]
    at = [asdict(row) for row in kernel.at]
    return {"kernel": kernel.workload, "table": table, "gain": gain_of(kernel), "at": at}


def tables_text(kernels: Sequence[SizeTuning]) -> str:
    """A line for each kernel and interval of sizes."""
    return text_table(
        ("kernel", "gain", "sizes", "settings"),
        [
            (
                None if i else kernel.workload.partition("#")[0],
                None if i else f"{gain_of(kernel):.3f}x",
                f"up to {end}" if end else "larger" if i else "any",
                "first guess" if settings == DEFAULT_SETTINGS else settings,
            )
            for kernel in kernels
            for i, (end, settings) in enumerate(kernel.table)
        ],
        left=(0, 2, 3),
    )


def gain_of(kernel: SizeTuning) -> float:
    """How many times as fast as with the first guess, where that is proven, over all runs."""
    return kernel.ms(FIRST_GUESS) / kernel.ms(kernel.table)
