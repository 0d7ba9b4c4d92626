"""Fixtures: seeded inputs of a workload and the results that a kernel must reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FixtureArg:
    """One kernel argument of a fixture; ``data`` is None for outputs and workspaces."""

    role: str  # "input" | "output" | "workspace"
    dtype: str
    nbytes: int
    data: bytes | None = None
    pack: tuple[int, int] | None = None


@dataclass(frozen=True)
class Fixture:
    """Seeded inputs of a workload with its float64 reference."""

    workload: str
    args: tuple[FixtureArg, ...]
    expected: tuple[NDArray[Any], ...]
    """The reference of each output, flattened: rounded to float32, or the exact integers."""
    bound: tuple[NDArray[np.float32], ...]
    """The largest accepted ``|got - expected|`` of each element; it grows with the depth of the
    reduction."""
