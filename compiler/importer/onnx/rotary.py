"""RotaryEmbedding of ONNX 23 and of ONNX Runtime: halves or pairs of each head, turned.

``(x1 cos - x2 sin, x2 cos + x1 sin)``; ONNX operator page RotaryEmbedding and ONNX Runtime's
docs/ContribOperators.md. The two differ in the order of their inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


def onnx_rotary(r: Rewriter) -> bool:
    x, cos, sin, places = [*r.node.input, ""][:4]
    return _rotary(r, x, places, cos, sin)


def microsoft_rotary(r: Rewriter) -> bool:
    x, places, cos, sin = r.node.input
    if r.attribute("scale", 1.0) != 1.0 or r.attribute("is_packed_batching", 0):
        raise r.refuse("scale 1 and no packed batches")
    if len(r.shape(places)) == 1:
        places = _counted_from(r, places, r.shape(x)[-2])
    return _rotary(r, x, places, cos, sin)


def _counted_from(r: Rewriter, first: str, count: int) -> str:
    return r.op("Add", r.along("Unsqueeze", first, [0]), r.weight(np.arange(count)[None], np.int64))


def _rotary(r: Rewriter, x: str, places: str, cos: str, sin: str) -> bool:
    shape, half = r.shape(x), r.shape(cos)[-1]
    heads = len(shape) - 3  # the axis that cosines are the same along
    if len(shape) == 3:
        width = shape[-1] // (r.attribute("num_heads", 0) or shape[-1] // (2 * half))
        # Here the heads stand behind the positions.
        heads, shape = 2, (*shape[:2], shape[-1] // width, width)
        x = r.op("Reshape", x, r.weight(shape, np.int64))
    whole = turn(r, x, shape, Angles(cos, sin, places, heads), r.attribute("interleaved", 0))
    r.op("Reshape", whole, r.weight(r.shape(r.node.input[0]), np.int64), out=r.node.output[0])
    return True


@dataclass(frozen=True)
class Angles:
    """Tables of cosines and sines, the rows of them that count, and the axis of heads."""

    cos: str
    sin: str
    places: str
    heads: int


def turn(r: Rewriter, x: str, shape: tuple[int, ...], by: Angles, pairs: int) -> str:
    """Heads of a shape of rank 4, turned; with ``pairs`` neighbours are turned, else halves."""
    half = r.shape(by.cos)[-1]
    turned, rest = _slice(r, x, 0, 2 * half), ""
    if 2 * half < shape[-1]:
        rest = _slice(r, x, 2 * half, shape[-1])
    way = _pairs if pairs else _halves
    whole = way(r, turned, by, (*shape[:3], 2 * half))
    if rest:
        whole = r.op("Concat", whole, rest, axis=3)
    return whole


def _halves(r: Rewriter, x: str, by: Angles, shape: tuple[int, ...]) -> str:
    """``x (c, c) + (x2, x1) (-s, s)``: elements by themselves, which one kernel writes at once."""
    half = shape[3] // 2
    other = r.op("Concat", _slice(r, x, half, 2 * half), _slice(r, x, 0, half), axis=3)
    c, s = (_rows(r, table, by) for table in (by.cos, by.sin))
    both = r.op("Concat", c, c, axis=3), r.op("Concat", r.op("Neg", s), s, axis=3)
    return r.op("Add", r.op("Mul", x, both[0]), r.op("Mul", other, both[1]))


def _pairs(r: Rewriter, x: str, by: Angles, shape: tuple[int, ...]) -> str:
    first, second = (_slice(r, x, begin, shape[3], 2) for begin in (0, 1))
    c, s = (_rows(r, table, by) for table in (by.cos, by.sin))
    low = r.op("Sub", r.op("Mul", first, c), r.op("Mul", second, s))
    high = r.op("Add", r.op("Mul", second, c), r.op("Mul", first, s))
    both = r.op("Concat", *(r.along("Unsqueeze", v, [4]) for v in (low, high)), axis=4)
    return r.op("Reshape", both, r.weight(shape, np.int64))


def _rows(r: Rewriter, table: str, by: Angles) -> str:
    if by.places:
        table = r.op("Gather", table, by.places, axis=0)
    return r.along("Unsqueeze", table, [by.heads])


def _slice(r: Rewriter, x: str, begin: int, end: int, step: int = 1) -> str:
    numbers = (r.weight([n], np.int64) for n in (begin, end, 3, step))
    return r.op("Slice", x, *numbers)
