"""Layered drawing of a directed acyclic graph. Knows no Qt.

The classic four steps (Sugiyama, Tagawa, Toda 1981), each in its simplest
form that reads well: longest-path layers, one chain of waypoints per source
for edges that cross layers, barycentre sweeps for the order, and least squares
under the order for the places. Sweeps end when nothing moves any more.

Shared chains are why this is no library: a tensor that every layer of a model
reads (an attention mask) costs one waypoint a layer here, and one for each
reader and layer elsewhere; ``docs/window.md`` has the figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

Point = tuple[float, float]
SWEEPS = 12
WAYPOINT_WIDTH = 14.0
NODE_WEIGHT, WAYPOINT_WEIGHT = 8.0, 1.0
"""Resistance of a node and of a waypoint to a move from the place that it wants."""
WAYPOINT_PULL = 0.1
"""Pull of a waypoint; a node pulls by 1, so the main chain runs straight down."""
AT_REST = 0.5
"""Pixels of the largest move of a sweep, below which the places are settled."""


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
    number = {node: i for i, node in enumerate(nodes)}
    by_name = layers_of(nodes, edges)
    level = [by_name[node] for node in nodes]
    width = [widths[node] for node in nodes]
    rows: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for i, at in enumerate(level):
        rows[at].append(i)
    waypoints: dict[tuple[int, int], int] = {}
    links: set[tuple[int, int]] = set()
    chains: dict[tuple[str, str], list[int]] = {}
    for edge in edges:
        a, b = number[edge[0]], number[edge[1]]
        chain = [a]
        for between in range(level[a] + 1, level[b]):
            waypoint = waypoints.get((a, between))
            if waypoint is None:
                waypoint = waypoints[a, between] = len(width)
                width.append(WAYPOINT_WIDTH)
                level.append(between)
                rows[between].append(waypoint)
            chain.append(waypoint)
        chain.append(b)
        chains[edge] = chain
        links.update(pairwise(chain))
    up: list[list[int]] = [[] for _ in width]
    down: list[list[int]] = [[] for _ in width]
    for a, b in sorted(links):
        up[b].append(a)
        down[a].append(b)
    _order(rows, up, down)
    x = _columns(rows, up, down, width, len(nodes), gap_x)
    place = [(x[i], at * step_y) for i, at in enumerate(level)]
    return Drawing(
        {node: place[i] for i, node in enumerate(nodes)},
        {edge: tuple(place[i] for i in chain) for edge, chain in chains.items()},
    )


def _order(rows: list[list[int]], up: Sequence[list[int]], down: Sequence[list[int]]) -> None:
    at = [0.0] * len(up)
    for row in rows:
        for i, node in enumerate(row):
            at[node] = i
    still = 0
    for sweep in range(SWEEPS):
        neighbours, walk = (up, rows) if sweep % 2 == 0 else (down, rows[::-1])
        moved = False
        for row in walk:
            if len(row) < 2:
                continue
            before = row.copy()
            row.sort(key=lambda n: _mean([at[m] for m in neighbours[n]], at[n]))
            if row != before:
                moved = True
                for i, node in enumerate(row):
                    at[node] = i
        still = 0 if moved else still + 1
        if still == 2:  # neither down nor up
            return


def _columns(
    rows: list[list[int]],
    up: Sequence[list[int]],
    down: Sequence[list[int]],
    width: Sequence[float],
    nodes: int,
    gap: float,
) -> list[float]:
    x = [0.0] * len(width)
    weight = [NODE_WEIGHT if i < nodes else WAYPOINT_WEIGHT for i in range(len(width))]
    pulls = [
        [(m, 1.0 if m < nodes else WAYPOINT_PULL) for m in (*up[i], *down[i])]
        for i in range(len(width))
    ]
    total = [sum(w for _, w in pull) for pull in pulls]
    offsets = [
        list(accumulate(((width[a] + width[b]) / 2 + gap for a, b in pairwise(row)), initial=0.0))
        for row in rows
    ]
    places = list(range(len(rows)))
    for sweep in range(2 * SWEEPS):
        largest = 0.0
        for place in places if sweep % 2 == 0 else reversed(places):
            row, offset = rows[place], offsets[place]
            free = [
                (sum(w * x[m] for m, w in pulls[n]) / total[n] if total[n] else x[n]) - o
                for n, o in zip(row, offset, strict=False)
            ]
            if len(row) > 1:
                free = _isotonic(free, [weight[n] for n in row])
            for n, value, o in zip(row, free, offset, strict=False):
                moved = value + o
                largest = max(largest, abs(moved - x[n]))
                x[n] = moved
        if largest < AT_REST:
            break
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


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
