"""What one tuning for many sizes found, for a reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.size_tuning import SizeTuning, Table
from nnjit_studio.support.tables import text_table

FIRST_GUESS: Table = ((None, DEFAULT_SETTINGS),)


@dataclass(frozen=True)
class TunedSizes:
    """Settings of a model's kernels that were compared at several sizes."""

    model: str
    sizes: tuple[Mapping[str, int], ...]
    """Of the open dimensions."""
    weights: tuple[float, ...]
    """Share of all runs that each size stands for."""
    tuned: Mapping[str, int]
    """The size at which settings were searched for."""
    kernels: tuple[SizeTuning, ...]
    """Most work first."""
    left: tuple[str, ...]
    """Names of kernels for which there was no time."""
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        kernels = [
            {
                "kernel": k.workload,
                "table": [{"up_to": end, "settings": settings} for end, settings in k.table],
                "gain": _gain(k),
                "at": [asdict(row) for row in k.at],
            }
            for k in self.kernels
        ]
        return {"event": "sizes", **asdict(self), "kernels": kernels}

    def as_text(self) -> str:
        """A line for each kernel and interval."""
        cells = [
            (
                k.workload.partition("#")[0] if i == 0 else "",
                f"{_gain(k):.3f}x" if i == 0 else "",
                "any" if end is None and i == 0 else f"up to {end}" if end else "larger",
                "first guess" if settings == DEFAULT_SETTINGS else settings,
            )
            for k in self.kernels
            for i, (end, settings) in enumerate(k.table)
        ]
        heads = ("kernel", "gain", "sizes", "settings")
        shares = ", ".join(
            f"{'x'.join(map(str, each.values()))} ({weight:.0%})"
            for each, weight in zip(self.sizes, self.weights, strict=True)
        )
        head = f"{self.model}: settings compared at {shares}"
        about = (
            "The gain is over the first guess, in time weighted by how often each size runs; "
            "nnjit export takes these settings for a bundle for any size."
        )
        left = [f"There was no time for {len(self.left)} kernels: {', '.join(self.left)}."]
        parts = [head, text_table(heads, cells), about, *(left if self.left else ()), *self.notes]
        return "\n\n".join(parts[:2]) + "\n\n" + "\n".join(parts[2:])


def _gain(kernel: SizeTuning) -> float:
    return kernel.ms(FIRST_GUESS) / kernel.ms(kernel.table)
