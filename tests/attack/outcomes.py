"""What every campaign has: a seed, a size, an end, and a place for what it found."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """``complete``: as many attacks were made as the bar asks for.

    ``counts`` of several runs are added up, of ``most`` the largest counts.
    """

    holds: bool
    figure: str
    complete: bool
    done: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Campaign:
    """``size`` attacks, fewer where ``seconds`` are over before; ``start`` were made by others."""

    rng: random.Random
    size: int
    seconds: float
    folder: Path
    unit: str = "attacks"
    start: int = 0
    done: int = 0
    kept: list[Path] = field(default_factory=list)

    def rounds(self) -> Iterator[int]:
        """Numbers of the attacks, from ``start + 1``."""
        end = time.monotonic() + self.seconds
        while self.start + self.done < self.size and time.monotonic() < end:
            self.done += 1
            yield self.start + self.done

    def keep(self, path: Path, kind: str) -> None:
        """Put aside what an attack found, for whoever repairs it."""
        kept = self.folder / f"found-{kind}-{self.start + self.done}{path.suffix}"
        shutil.copy(path, kept)
        self.kept.append(kept)

    def outcome(
        self, holds: bool, counts: Mapping[str, int], most: Mapping[str, int] | None = None,
        note: str = "",
    ) -> Outcome:  # fmt: skip
        text = "; ".join(filter(None, (told(counts, most or {}), note)))
        found = f"; kept in {self.folder}" if self.kept else ""
        figure = f"{self.done:,} of {self.size:,} {self.unit}: {text}{found}"
        complete = self.start + self.done >= self.size
        return Outcome(holds, figure, complete, self.done, dict(counts), dict(most or {}))


def told(counts: Mapping[str, int], most: Mapping[str, int]) -> str:
    """Such as ``0 died, 3 refused, 5 MiB more``."""
    return ", ".join(f"{number:,} {name}" for name, number in {**counts, **most}.items())
