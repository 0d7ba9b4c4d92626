"""Winograd's matrices: of weights as numbers, of tiles as arithmetic with few additions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.ir.tensor_ir import Binary, Const, Expr, Var

_Matrix = tuple[tuple[float, ...], ...]


# By m. The points are 0, 1, -1 and infinity, for m = 4 also 2 and -2.
_OF_WEIGHTS: dict[int, _Matrix] = {
    2: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    4: (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
}
TILES = tuple(_OF_WEIGHTS)
"""Sizes of tiles that there are matrices for."""
Lines = list[tuple[str, Expr]]


def transformed_weights(weights: NDArray[np.float32], m: int) -> NDArray[np.float32]:
    """``[O, C, 3, 3]`` to ``[C, points * O]``, each point ``O`` columns; computed in float64."""
    g = np.array(_OF_WEIGHTS[m], np.float64)
    out, channels = weights.shape[:2]
    there = np.kron(g, g) @ weights.transpose(2, 3, 1, 0).reshape(9, -1).astype(np.float64)
    by_channel = there.reshape(-1, channels, out).transpose(1, 0, 2)
    return np.ascontiguousarray(by_channel, np.float32).reshape(channels, -1)


def into_tiles(m: int, v: Sequence[Expr]) -> tuple[Lines, list[Expr]]:
    """``B^T d`` along one dimension: values that are needed twice, by name, then the results."""
    if m == 2:
        return [], [_less(v[0], v[2]), _sum(v[1], v[2]), _less(v[2], v[1]), _less(v[1], v[3])]
    p, q, r, s = (Var(name) for name in "pqrs")
    lines: Lines = [
        ("p", _sum(v[4], v[2], -4)),
        ("q", _sum(v[3], v[1], -4)),
        ("r", _less(v[4], v[2])),
        ("s", _less(v[3], v[1])),
    ]
    first, last = (_sum(_sum(v[b + 4], v[b + 2], -5), v[b], 4) for b in (0, 1))
    return lines, [first, _sum(p, q), _less(p, q), _sum(r, s, 2), _sum(r, s, -2), last]


def out_of_tiles(m: int, v: Sequence[Expr]) -> tuple[Lines, list[Expr]]:
    """``A^T d`` along one dimension, as :func:`into_tiles`."""
    if m == 2:
        return [], [_sum(_sum(v[0], v[1]), v[2]), _less(_less(v[1], v[2]), v[3])]
    p, q, r, s = (Var(name) for name in "pqrs")
    lines: Lines = [
        ("p", _sum(v[1], v[2])),
        ("q", _less(v[1], v[2])),
        ("r", _sum(v[3], v[4])),
        ("s", _less(v[3], v[4])),
    ]
    first, last = _sum(_sum(v[0], p), r), _sum(_sum(q, v[5]), s, 8)
    return lines, [first, _sum(q, s, 2), _sum(p, r, 4), last]


def _sum(a: Expr, b: Expr, factor: int = 1) -> Expr:
    term = b if factor == 1 else Binary("mul", b, Const(float(factor), "f32"))
    return Binary("add", a, term)


def _less(a: Expr, b: Expr) -> Expr:
    return Binary("sub", a, b)
