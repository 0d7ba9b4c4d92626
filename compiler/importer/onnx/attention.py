"""ONNX Runtime's attention operators, written with products and softmax.

Formulas and forms: ONNX Runtime, docs/ContribOperators.md. Heads that share keys and values are
rows of one product, so that nothing is repeated. A past is full: its length is that of its tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from onnx import TensorProto

from nnjit_studio.compiler.importer.onnx.quantised import scaled_product
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.importer.onnx.rotary import Angles, turn

_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class _Heads:
    """Operands as (batch, heads, places, width), and what is added to their scores."""

    query: str
    key: str
    value: str
    sizes: tuple[int, int, int, int]
    """Batch, heads, queries, and heads of keys and values."""
    keys: int
    scale: float
    added: tuple[str, ...] = ()
    softcap: float = 0.0


def _attend(r: Rewriter, h: _Heads) -> None:
    """The node's first output, (batch, queries, heads * width)."""
    batch, heads, queries, shared = h.sizes
    query, rows = h.query, heads // shared * queries
    if shared < heads:
        query = _reshape(r, query, batch, shared, rows, -1)
    turned = r.op("Transpose", h.key, perm=[0, 1, 3, 2])
    scores = r.op("Mul", r.op("MatMul", query, turned), r.weight(h.scale, np.float32))
    if h.softcap:
        cap = r.weight(h.softcap, np.float32)
        scores = r.op("Mul", r.op("Tanh", r.op("Div", scores, cap)), cap)
    if shared < heads and h.added:
        scores = _reshape(r, scores, batch, heads, queries, h.keys)
    for added in h.added:
        scores = r.op("Add", scores, added)
    weights = r.op("Softmax", scores, axis=-1)
    if shared < heads and h.added:
        weights = _reshape(r, weights, batch, shared, rows, h.keys)
    result = r.op("MatMul", weights, h.value)
    if shared < heads:
        result = _reshape(r, result, batch, heads, queries, -1)
    merged = r.op("Transpose", result, perm=[0, 2, 1, 3])
    shape = r.weight([batch, queries, -1], np.int64)
    r.op("Reshape", merged, shape, out=r.node.output[0])


def _reshape(r: Rewriter, x: str, *sizes: int) -> str:
    return r.op("Reshape", x, r.weight(sizes, np.int64))


_SWAP = [0, 2, 1, 3]


def _width(r: Rewriter, x: str) -> int:
    return r.shape(x)[-1]


def _hidden(
    r: Rewriter, queries: int, keys: int, causal: bool, window: int = -1
) -> tuple[str, ...]:
    """What hides keys that are later than a query or, with a window, too far before it."""
    row = np.arange(queries)[:, None] + keys - queries
    column = np.arange(keys)[None]
    seen = np.ones((queries, keys), bool)
    if causal:
        seen &= column <= row
    if window > 0:
        seen &= column > row - window
    if seen.all():
        return ()
    return (r.weight(np.where(seen, 0.0, _LOWEST).astype(np.float32)),)


def _padding(r: Rewriter, mask: str, batch: int, keys: int, default: float) -> tuple[str, ...]:
    """What a mask of 0 and 1 for each key adds to scores."""
    if not mask:
        return ()
    if r.shape(mask) != (batch, keys):
        raise r.refuse("a mask with a number for each key, or none")
    wide = r.op("Cast", _reshape(r, mask, batch, 1, 1, keys), to=TensorProto.FLOAT)
    less = r.op("Sub", r.weight(1.0, np.float32), wide)
    return (r.op("Mul", less, r.weight(r.attribute("mask_filter_value", default), np.float32)),)


def _full_past(r: Rewriter, lengths: str, batch: int, last: int) -> tuple[str, ...]:
    """What makes the results of a batch NaN whose past is shorter than its buffer."""
    known = r.constants.get(lengths)
    if known is not None:
        if (known != last).any():
            raise r.refuse("a past that fills its buffer, in each batch")
        return ()
    same = r.op("Equal", _reshape(r, lengths, batch, 1, 1, 1), r.weight(last, np.int32))
    return (r.op("Where", same, r.weight(0.0, np.float32), r.weight(np.nan, np.float32)),)


def _joined(r: Rewriter, past: str, new: str, out: str) -> str:
    """Past and new rows of keys or values, which are an output perhaps."""
    if past:
        return r.op("Concat", past, new, axis=2, out=out)
    return r.op("Identity", new, out=out) if out else new


def _scale(r: Rewriter, width: int) -> float:
    given = float(r.attribute("scale", 0.0))
    return given or 1 / math.sqrt(width)


def multi_head_attention(r: Rewriter) -> bool:
    """Of separate, packed or already split operands; a past, a mask of keys, an added bias."""
    names = [*r.node.input, *[""] * 10][:8]
    query, key, value, bias, mask, added, past_key, past_value = names
    if any([*r.node.input, *[""] * 10][8:10]) or any(r.node.output[3:]):
        raise r.refuse("no shared buffers, and no output of its scores")
    heads, shape = r.attribute("num_heads", 0), r.shape(query)
    if len(shape) != 3 or not key or not value:
        raise r.refuse("query, key and value of their own, the first of rank 3")
    batch, queries, width = shape
    split = len(r.shape(key)) == 4
    wide = width if split else _width(r, value)
    given = [query, key, value]
    if bias:
        if bias not in r.constants:
            raise r.refuse("a constant bias")
        cuts = np.split(r.constants[bias], [width, 2 * width])
        given = [
            r.op("Add", x, r.weight(cut)) if i == 0 or not split else x
            for i, (x, cut) in enumerate(zip(given, cuts, strict=True))
        ]
        if split and cuts[1].any() | cuts[2].any():
            raise r.refuse("no bias of keys and values that are split already")
    q = _heads_of(r, given[0], batch, heads, width)
    k, v = (
        given[1:]
        if split
        else (
            _heads_of(r, given[1], batch, heads, width),
            _heads_of(r, given[2], batch, heads, wide),
        )
    )
    outs = [*r.node.output[1:3], "", ""][:2]
    k, v = _joined(r, past_key, k, outs[0]), _joined(r, past_value, v, outs[1])
    keys = r.shape(key)[2 if split else 1] + (r.shape(past_key)[2] if past_key else 0)
    masks = [*_padding(r, mask, batch, keys, -10000.0), *([added] if added else [])]
    masks += _hidden(r, queries, keys, bool(r.attribute("unidirectional", 0)))
    scale = _scale(r, width // heads)
    _attend(r, _Heads(q, k, v, (batch, heads, queries, heads), keys, scale, tuple(masks)))
    return True


def _heads_of(r: Rewriter, x: str, batch: int, heads: int, width: int) -> str:
    return r.op("Transpose", _reshape(r, x, batch, -1, heads, width // heads), perm=_SWAP)


def attention(r: Rewriter) -> bool:
    """One product for query, key and value of each place."""
    x, weights, bias, mask, past, added = [*r.node.input, *[""] * 6][:6]
    sizes = r.attribute("qkv_hidden_sizes", None) or [r.shape(weights)[1] // 3] * 3
    product = r.op("MatMul", x, weights)
    whole = r.op("Add", product, bias) if bias else product
    return _packed(r, whole, r.shape(x), sizes, (mask, past, added))


def quantised_attention(r: Rewriter) -> bool:
    """``QAttention``: the same of integers."""
    x, weights, bias, scale_x, scale_w, mask, zero_x, zero_w, past = [*r.node.input, *[""] * 9][:9]
    width = r.shape(weights)[1]
    scale = r.op("Mul", scale_x, scale_w)
    whole = f"{r.node.output[0]}//whole"
    scaled_product(r, (x, weights, zero_x, zero_w), scale, bias, whole)
    return _packed(r, whole, r.shape(x), [width // 3] * 3, (mask, past, ""))


def _packed(
    r: Rewriter,
    whole: str,
    shape: tuple[int, ...],
    sizes: list[int],
    given: tuple[str, str, str],
) -> bool:
    mask, past, added = given
    if r.attribute("do_rotary", 0) or r.attribute("past_present_share_buffer", 0):
        raise r.refuse("no rotation and no shared buffers")
    batch, queries = shape[:2]
    heads = r.attribute("num_heads", 0)
    parts = r.split(whole, [int(s) for s in sizes], 2)
    q, k, v = (_heads_of(r, p, batch, heads, s) for p, s in zip(parts, sizes, strict=True))
    keys = queries
    if past:
        keys += r.shape(past)[3]
        old = [r.op("Gather", past, r.weight(i, np.int64), axis=0) for i in range(2)]
        k, v = _joined(r, old[0], k, ""), _joined(r, old[1], v, "")
    if any(r.node.output[1:2]):
        both = [r.along("Unsqueeze", t, [0]) for t in (k, v)]
        r.op("Concat", *both, axis=0, out=r.node.output[1])
    masks = [*_padding(r, mask, batch, keys, -10000.0), *([added] if added else [])]
    masks += _hidden(r, queries, keys, bool(r.attribute("unidirectional", 0)))
    scale = _scale(r, sizes[0] // heads)
    _attend(r, _Heads(q, k, v, (batch, heads, queries, heads), keys, scale, tuple(masks)))
    return True


def group_query_attention(r: Rewriter) -> bool:
    """Causal, with shared keys and values, rotation inside, and a past that has to be full."""
    names = [*r.node.input, *[""] * 12][:12]
    query, key, value, past_key, past_value = names[:5]
    cos, sin, places, added, sink = names[7:12]
    if sink or r.attribute("smooth_softmax", 0) > 0 or any(r.node.output[3:]):
        raise r.refuse("a plain softmax, and no output of its scores")
    heads, shared = r.attribute("num_heads", 0), r.attribute("kv_num_heads", 0)
    batch, queries, width = r.shape(query)
    size = width // (heads if key else heads + 2 * shared)
    old = r.shape(past_key)[2] if past_key else 0
    if key:
        q, k, v = (
            _reshape(r, x, batch, queries, n, size)
            for x, n in ((query, heads), (key, shared), (value, shared))
        )
    else:  # slices of heads, which what reads them can do by itself
        every = _reshape(r, query, batch, queries, heads + 2 * shared, size)
        ends = (0, heads, heads + shared, heads + 2 * shared)
        q, k, v = (
            r.op("Slice", every, *(r.weight([n], np.int64) for n in (begin, end, 2)))
            for begin, end in pairwise(ends)
        )
    if r.attribute("do_rotary", 0):
        places = places or r.weight(np.arange(old, old + queries)[None], np.int64)
        by, pairs = Angles(cos, sin, places, 2), r.attribute("rotary_interleaved", 0)
        q, k = (
            turn(r, x, (batch, queries, n, size), by, pairs) for x, n in ((q, heads), (k, shared))
        )
    q, k, v = (r.op("Transpose", x, perm=_SWAP) for x in (q, k, v))
    outs = [*r.node.output[1:3], "", ""][:2]
    pasts = (past_key, past_value) if old else ("", "")
    k, v = (_joined(r, p, x, o) for p, x, o in zip(pasts, (k, v), outs, strict=True))
    masks = [added] if added else []
    masks += _full_past(r, names[5], batch, old + queries - 1)
    masks += _hidden(r, queries, old + queries, True, r.attribute("local_window_size", -1))
    sizes, cap = (batch, heads, queries, shared), float(r.attribute("softcap", 0.0))
    _attend(r, _Heads(q, k, v, sizes, old + queries, _scale(r, size), tuple(masks), cap))
    return True
