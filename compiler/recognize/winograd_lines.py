"""Winograd's matrices: of weights as numbers, of tiles as arithmetic with few additions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.ir.tensor_ir import Expr, Var

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
        return [], [v[0] - v[2], v[1] + v[2], v[2] - v[1], v[1] - v[3]]
    p, q, r, s = (Var(name) for name in "pqrs")
    lines: Lines = [
        ("p", v[4] + v[2] * -4.0),
        ("q", v[3] + v[1] * -4.0),
        ("r", v[4] - v[2]),
        ("s", v[3] - v[1]),
    ]
    first, last = (v[b + 4] + v[b + 2] * -5.0 + v[b] * 4.0 for b in (0, 1))
    return lines, [first, p + q, p - q, r + s * 2.0, r + s * -2.0, last]


def out_of_tiles(m: int, v: Sequence[Expr]) -> tuple[Lines, list[Expr]]:
    """``A^T d`` along one dimension, as :func:`into_tiles`."""
    if m == 2:
        return [], [v[0] + v[1] + v[2], v[1] - v[2] - v[3]]
    p, q, r, s = (Var(name) for name in "pqrs")
    lines: Lines = [
        ("p", v[1] + v[2]),
        ("q", v[1] - v[2]),
        ("r", v[3] + v[4]),
        ("s", v[3] - v[4]),
    ]
    return lines, [v[0] + p + r, q + s * 2.0, p + r * 4.0, q + v[5] + s * 8.0]
