"""Decision trees of a file as one table, in which every node compares alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LEAF = "LEAF"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "MEMBER")
"""In the order of the numbers that TreeEnsemble has for them."""
_REVERSED = {"BRANCH_GT": "BRANCH_LEQ", "BRANCH_GTE": "BRANCH_LT", "BRANCH_NEQ": "MEMBER"}


@dataclass(frozen=True)
class Branch:
    """A node with two behind it, by their keys; ``members`` are what it compares with."""

    feature: int
    mode: str
    members: Sequence[float]
    yes: Any
    no: Any
    nan: Any
    """Behind it where the feature is not a number."""


@dataclass(frozen=True)
class Forest:
    """Rows of leaves come first; the operator of the walk says what the columns are."""

    table: Array
    thresholds: Array
    roots: Array
    weights: Array
    """[leaves, targets], float32; NaN where a leaf has no weight for a target."""
    depth: int


def forest(
    roots: Sequence[Any], branches: Mapping[Any, Branch], leaves: Mapping[Any, Any], targets: int,
    refuse: Callable[[str], Exception],
) -> Forest:  # fmt: skip
    """Trees from their roots on.

    Parameters
    ----------
    leaves
        Target and weight pairs of each leaf, by its key.
    refuse
        Makes the error of what the trees need.
    """
    simple = _Simple(branches)
    rows, known = simple.rows, simple.known
    reached = dict.fromkeys([*(key for row in rows for key in row[2:]), *roots])
    places = {key: i for i, key in enumerate(key for key in reached if key not in known)}
    count = len(places)

    def place(key: Any) -> int:
        return count + known[key] if key in known else places[key]

    own = np.arange(count, dtype=np.int32)
    ends = np.stack([np.zeros_like(own), own, own, own], 1)
    inner = [[row[0], *map(place, row[2:])] for row in rows]
    table = np.concatenate([ends, np.array(inner, np.int32).reshape(-1, 4)])
    weights = np.full((count, targets), np.nan)
    for key, i in places.items():
        for target, weight in leaves.get(key, ()):
            if not 0 <= target < targets:
                raise refuse(f"targets below {targets}")
            weights[i, target] = np.nansum([weights[i, target], weight])
    limits = np.array([0.0] * count + [row[1] for row in rows], np.float32)
    begin = np.array([place(root) for root in roots], np.int32)
    if table[:, 0].min(initial=0) < 0:
        raise refuse("features that are counted from 0")
    return Forest(table, limits, begin, weights.astype(np.float32), _depth(table, begin, refuse))


def _depth(table: Array, roots: Array, refuse: Callable[[str], Exception]) -> int:
    """Steps until every walk is at a leaf."""
    here, steps = np.unique(roots), 0
    while True:
        after = np.unique(table[here, 1:])
        if np.array_equal(after, here) and (table[here, 1] == here).all():
            return steps
        steps += 1
        here = after
        if steps > len(table):
            raise refuse("trees without circles")


class _Simple:
    """Rows that go on to ``yes`` where a feature is at most a threshold, else to ``no``."""

    def __init__(self, branches: Mapping[Any, Branch]) -> None:
        self.rows: list[tuple[int, float, Any, Any, Any]] = []
        self.known: dict[Any, int] = {}
        for key, b in branches.items():
            yes, no, mode = b.yes, b.no, b.mode
            if mode in _REVERSED:
                yes, no, mode = no, yes, _REVERSED[mode]
            if mode == "BRANCH_LEQ":
                self._add(key, b, b.members[0], yes, no)
            elif mode == "BRANCH_LT":
                self._add(key, b, _below(b.members[0]), yes, no)
            else:
                self._equal(key, b, yes, no)

    def _add(self, key: Any, b: Branch, limit: float, yes: Any, no: Any) -> None:
        self.known[key] = len(self.rows)
        self.rows.append((b.feature, limit, yes, no, b.nan))

    def _equal(self, key: Any, b: Branch, yes: Any, no: Any) -> None:
        """Two rows for each number: at most it, and not at most the next below."""
        for i, member in enumerate(b.members):
            after = (key, "member", i + 1) if i + 1 < len(b.members) else no
            inside = (key, "inside", i)
            self._add(key if i == 0 else (key, "member", i), b, member, inside, after)
            self._add(inside, b, _below(member), after, yes)
        if not len(b.members):
            self._add(key, b, 0.0, no, no)


def _below(limit: float) -> float:
    """The largest float32 below a number."""
    return float(np.nextafter(np.float32(limit), np.float32(-np.inf)))
