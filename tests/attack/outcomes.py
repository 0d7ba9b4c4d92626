"""What every campaign has: a seed, a size, an end, and a place for what it found."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """``complete``: as many attacks were made as the bar asks for."""

    holds: bool
    figure: str
    complete: bool


@dataclass
class Campaign:
    """``size`` attacks, fewer where ``seconds`` are over before."""

    rng: random.Random
    size: int
    seconds: float
    folder: Path
    unit: str = "attacks"
    done: int = 0
    kept: list[Path] = field(default_factory=list)

    def rounds(self) -> Iterator[int]:
        end = time.monotonic() + self.seconds
        while self.done < self.size and time.monotonic() < end:
            self.done += 1
            yield self.done

    def keep(self, path: Path, kind: str) -> None:
        """Put aside what an attack found, for whoever repairs it."""
        kept = self.folder / f"found-{kind}-{self.done}{path.suffix}"
        shutil.copy(path, kept)
        self.kept.append(kept)

    def outcome(self, holds: bool, text: str) -> Outcome:
        found = f"; kept in {self.folder}" if self.kept else ""
        figure = f"{self.done:,} of {self.size:,} {self.unit}: {text}{found}"
        return Outcome(holds, figure, self.done >= self.size)
