"""Decision trees of a file as one table, in which every node compares alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "MEMBER")
"""In the order of the numbers that TreeEnsemble has for them."""
LEAF = len(MODES)
_LEQ, _LT, _GTE, _GT, _EQ, NEQ, MEMBER = range(LEAF)
_REVERSED = {_GT: _LEQ, _GTE: _LT, NEQ: _EQ}


@dataclass(frozen=True)
class Nodes:
    """All nodes and leaves, as columns of one length; a leaf leads nowhere.

    Files have millions of them, so nothing walks over them one by one.
    """

    features: Array
    modes: Array
    """Places in ``MODES``, or ``LEAF``."""
    limits: Array
    yes: Array
    no: Array
    nan: Array
    """Behind a node where its feature is not a number."""
    members: Sequence[Sequence[float]] = ()
    """What each MEMBER compares with, in the order of the nodes."""


@dataclass(frozen=True)
class Leaves:
    """Weights, each of a leaf for a target, as columns of one length.

    Those of a node that leads on, or of none (-1), are left out.
    """

    nodes: Array
    targets: Array
    weights: Array


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
    roots: Array, nodes: Nodes, leaves: Leaves, targets: int, refuse: Callable[[str], Exception]
) -> Forest:
    """Trees from their roots on; ``refuse`` makes the error of what the trees need."""
    if ((leaves.targets < 0) | (leaves.targets >= targets)).any():
        raise refuse(f"targets below {targets}")
    if ((nodes.features < 0) | (nodes.features >= 2**31)).any():
        raise refuse("features that are counted from 0, in 32 bits")
    if np.isnan(leaves.weights).any():  # here they stand for none
        raise refuse("weights that are numbers")
    nodes = _by_one_limit(_by_one_member(nodes))
    ends = nodes.modes == LEAF
    count = int(ends.sum())
    place = np.where(ends, np.cumsum(ends), count + np.cumsum(~ends)).astype(np.int32) - 1
    order = np.argsort(place)
    behind = [np.where(ends, place, place[way]) for way in (nodes.yes, nodes.no, nodes.nan)]
    table = np.stack([nodes.features.astype(np.int32), *behind], 1)[order]
    held = (leaves.nodes >= 0) & ends[leaves.nodes]
    at = place[leaves.nodes[held]], leaves.targets[held]
    given = np.zeros((count, targets), bool)
    given[at] = True
    weights = np.zeros((count, targets), np.float32)
    np.add.at(weights, at, leaves.weights[held].astype(np.float32))
    weights[~given] = np.nan
    begin = place[roots]
    limits = nodes.limits.astype(np.float32)[order]
    return Forest(table, limits, begin, weights, _depth(table, begin, count, refuse))


def _depth(table: Array, roots: Array, leaves: int, refuse: Callable[[str], Exception]) -> int:
    """Steps until every walk is at a leaf."""
    here, steps = np.unique(roots[roots >= leaves]), 0
    while len(here):
        after = table[here, 1:]
        here = np.unique(after[after >= leaves])
        steps += 1
        if steps > len(table):
            raise refuse("trees without circles")
    return steps


def _by_one_member(nodes: Nodes) -> Nodes:
    """Nodes without MEMBER: each is a chain of equalities."""
    columns = [nodes.features, nodes.modes, nodes.limits, nodes.yes, nodes.no, nodes.nan]
    features, modes, limits, yes, no, nan = (np.array(c) for c in columns)
    more: list[tuple[Any, ...]] = []
    for at, members in zip(np.flatnonzero(modes == MEMBER), nodes.members, strict=True):
        modes[at] = _EQ
        if not members:
            yes[at] = no[at]
            continue
        limits[at] = members[0]
        last = len(modes) + len(more) + len(members) - 2
        chain = range(len(modes) + len(more), last + 1)
        for i, member in zip(chain, members[1:], strict=True):
            after = no[at] if i == last else i + 1
            more.append((features[at], _EQ, member, yes[at], after, nan[at]))
        if chain:
            no[at] = chain[0]
    return joined((features, modes, limits, yes, no, nan), more and list(zip(*more, strict=True)))


def _by_one_limit(nodes: Nodes) -> Nodes:
    """Nodes that go on to ``yes`` where a feature is at most a limit, else to ``no``.

    An equality is two of them: at most the number, and not at most the next below.
    """
    yes, no, modes = nodes.yes, nodes.no, nodes.modes.copy()
    for mode, other in _REVERSED.items():
        turned = nodes.modes == mode
        yes, no = np.where(turned, no, yes), np.where(turned, yes, no)
        modes[turned] = other
    below = np.nextafter(nodes.limits.astype(np.float32), np.float32(-np.inf))
    limits = np.where(modes == _LT, below, nodes.limits.astype(np.float32))
    same = np.flatnonzero(modes == _EQ)
    inside = (nodes.features[same], modes[same], below[same], no[same], yes[same], nodes.nan[same])
    yes[same] = len(modes) + np.arange(len(same))
    return joined((nodes.features, modes, limits, yes, no, nodes.nan), inside)


def joined(columns: Sequence[Array], more: Sequence[Any]) -> Nodes:
    """Columns of nodes, in the order of :class:`Nodes`, and those of further ones behind."""
    return Nodes(*(map(np.append, columns, more) if len(more) else columns))
