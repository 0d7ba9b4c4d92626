"""Layered drawing of a directed acyclic graph. Knows no Qt.

The classic four steps (Sugiyama, Tagawa, Toda 1981), each in its simplest
form that reads well at a few hundred nodes: longest-path layers, one chain of
waypoints per source for edges that cross layers, barycentre sweeps for the
order, and least squares under the order for the places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]
SWEEPS = 12
WAYPOINT_WIDTH = 14.0


@dataclass(frozen=True)
class Drawing:
    """Centres of nodes, and the points of each edge from source to target."""

    places: Mapping[str, Point]
    routes: Mapping[tuple[str, str], tuple[Point, ...]]


def layers_of(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Longest-path layers; sources stand right above their first consumer.

    Raises
    ------
    ValueError
        When an edge runs against the order of ``nodes``.
    """
    position = {node: i for i, node in enumerate(nodes)}
    parents: dict[str, list[str]] = defaultdict(list)
    children: dict[str, list[str]] = defaultdict(list)
    for a, b in edges:
        if position[a] >= position[b]:
            raise ValueError(f"The edge {a} -> {b} runs against the order of execution.")
        parents[b].append(a)
        children[a].append(b)
    layer: dict[str, int] = {}
    for node in nodes:
        layer[node] = 1 + max((layer[p] for p in parents[node]), default=-1)
    for node in nodes:
        if not parents[node] and children[node]:
            layer[node] = min(layer[c] for c in children[node]) - 1
    lowest = min(layer.values(), default=0)
    return {node: value - lowest for node, value in layer.items()}


def draw(
    widths: Mapping[str, float], edges: Sequence[tuple[str, str]], gap_x: float, step_y: float
) -> Drawing:
    """Place nodes, given in order of execution with their widths."""
    nodes = list(widths)
    layer = layers_of(nodes, edges)
    width = dict(widths)
    rows: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node in nodes:
        rows[layer[node]].append(node)
    links: set[tuple[str, str]] = set()
    chains: dict[tuple[str, str], list[str]] = {}
    for a, b in edges:
        chain = [a]
        for level in range(layer[a] + 1, layer[b]):
            waypoint = f"{a}\0{level}"
            if waypoint not in width:
                width[waypoint] = WAYPOINT_WIDTH
                rows[level].append(waypoint)
            chain.append(waypoint)
        chain.append(b)
        chains[a, b] = chain
        links.update(pairwise(chain))
    up: dict[str, list[str]] = defaultdict(list)
    down: dict[str, list[str]] = defaultdict(list)
    for a, b in sorted(links):
        up[b].append(a)
        down[a].append(b)
    _order(rows, up, down)
    x = _columns(rows, up, down, width, gap_x)
    level_of = {node: level for level, row in enumerate(rows) for node in row}
    return Drawing(
        {node: (x[node], level_of[node] * step_y) for node in nodes},
        {
            edge: tuple((x[n], level_of[n] * step_y) for n in chain)
            for edge, chain in chains.items()
        },
    )


def _order(
    rows: list[list[str]], up: Mapping[str, list[str]], down: Mapping[str, list[str]]
) -> None:
    for sweep in range(SWEEPS):
        neighbours, walk = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        at = {node: i for row in rows for i, node in enumerate(row)}
        for row in walk:
            row.sort(key=lambda n: _mean([at[m] for m in neighbours.get(n, [])], at[n]))
            at.update({node: i for i, node in enumerate(row)})


def _columns(
    rows: list[list[str]],
    up: Mapping[str, list[str]],
    down: Mapping[str, list[str]],
    width: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    x = {node: 0.0 for row in rows for node in row}
    for sweep in range(2 * SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = [_pull(n, (*up.get(n, []), *down.get(n, [])), x) for n in row]
            offsets = [0.0]
            for a, b in pairwise(row):
                offsets.append(offsets[-1] + (width[a] + width[b]) / 2 + gap)
            weights = [1.0 if "\0" in n else 8.0 for n in row]
            free = [w - o for w, o in zip(wanted, offsets, strict=True)]
            for node, value, offset in zip(row, _isotonic(free, weights), offsets, strict=True):
                x[node] = value + offset
    return x


def _isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Closest non-decreasing sequence in weighted least squares (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        size = 1
        while blocks and blocks[-1][0] > value:
            other, other_weight, other_size = blocks.pop()
            value = (value * weight + other * other_weight) / (weight + other_weight)
            weight, size = weight + other_weight, size + other_size
        blocks.append((value, weight, size))
    return [value for value, _, size in blocks for _ in range(size)]


def _pull(node: str, neighbours: Sequence[str], x: Mapping[str, float]) -> float:
    # Nodes pull harder than waypoints, so that the main chain runs straight down.
    weights = [0.1 if "\0" in n else 1.0 for n in neighbours]
    if not weights:
        return x[node]
    return sum(w * x[n] for w, n in zip(weights, neighbours, strict=True)) / sum(weights)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
