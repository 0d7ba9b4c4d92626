"""MaxPool with the places of what it takes; windows that leave out a part of the image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


@dataclass(frozen=True)
class _Window:
    """What a pool does along each axis of an image."""

    size: list[int]
    kernel: list[int]
    strides: list[int]
    gaps: list[int]
    results: list[int]
    missing: list[int]
    """What windows need beyond the image; below 0 where some of it is in none."""
    before: list[int]
    after: list[int]


def max_pool(r: Rewriter) -> bool:
    """Its places by an ArgMax over the elements of each window; the largest stay the pool's own."""
    found = [*r.node.output, ""][1]
    if found and r.read.get(found):
        _places(r, _window(r), found)
    del r.node.output[1:]
    if r.attribute("auto_pad", b"") == b"SAME_LOWER":
        # The converter takes the sizes of the results otherwise.
        window = _window(r)
        kept = [a for a in r.node.attribute if a.name not in ("auto_pad", "pads")]
        del r.node.attribute[:]
        r.node.attribute.extend(kept)
        r.node.attribute.append(helper.make_attribute("pads", window.before + window.after))
    return False


def lp_pool(r: Rewriter) -> bool:
    """Strides longer than the kernel may want less than is there: ONNX Runtime skips half of that
    in front, for SAME_LOWER half of one less."""
    auto = r.attribute("auto_pad", b"")
    if auto.startswith(b"SAME"):
        window = _window(r)
        rank = len(window.kernel)
        starts = [max(-m - (auto == b"SAME_LOWER"), 0) // 2 for m in window.missing]
        if any(starts):
            bounds = (starts, window.size, range(2, 2 + rank))
            parts = (r.weight(list(b), np.int64) for b in bounds)
            r.node.input[0] = r.op("Slice", r.node.input[0], *parts)
    return False


def _window(r: Rewriter) -> _Window:
    size, kernel = list(r.shape(r.node.input[0])[2:]), r.attribute("kernel_shape", [])
    rank = len(kernel)
    strides, gaps = (r.attribute(n, [1] * rank) for n in ("strides", "dilations"))
    results = list(r.shape(r.node.output[0])[2:])
    reach = [(results[d] - 1) * strides[d] + gaps[d] * (kernel[d] - 1) + 1 for d in range(rank)]
    missing = [reach[d] - size[d] for d in range(rank)]
    before = _before(r, [max(n, 0) for n in missing])
    after = [max(missing[d] - before[d], 0) for d in range(rank)]
    return _Window(size, kernel, strides, gaps, results, missing, before, after)


def _places(r: Rewriter, window: _Window, out: str) -> None:
    """Write the places of the largest elements, counted over the whole tensor."""
    x, rank = r.node.input[0], len(window.kernel)
    size, strides, gaps, results = window.size, window.strides, window.gaps, window.results
    padded = _padded(r, x, window.before, window.after)
    taps = list(np.ndindex(*window.kernel))
    parts = []
    for tap in taps:
        starts = [t * gap for t, gap in zip(tap, gaps, strict=True)]
        ends = [
            start + (n - 1) * step + 1
            for start, n, step in zip(starts, results, strides, strict=True)
        ]
        bounds = (starts, ends, range(2, 2 + rank), strides)
        part = r.op("Slice", padded, *(r.weight(list(b), np.int64) for b in bounds))
        parts.append(r.along("Unsqueeze", part, [0]))
    best = r.op("ArgMax", r.op("Concat", *parts, axis=0), axis=0, keepdims=0)
    # Row-major, or with the first of the axes moving fastest.
    order = range(rank) if r.attribute("storage_order", 0) else reversed(range(rank))
    apart, step = [0] * rank, 1
    for d in order:
        apart[d], step = step, step * size[d]
    planes = r.shape(x)[:2]
    plane = np.arange(math.prod(planes)).reshape([*planes, *[1] * rank]) * step
    for d in range(rank):
        shape = [-1 if d == e else 1 for e in range(rank)]
        corner = np.arange(results[d]) * strides[d] - window.before[d]
        plane = plane + corner.reshape(shape) * apart[d]
    moves = [sum(t * g * a for t, g, a in zip(tap, gaps, apart, strict=True)) for tap in taps]
    inside = r.op("Gather", r.weight(moves, np.int64), best, axis=0)
    r.op("Add", inside, r.weight(plane, np.int64), out=out)


def _before(r: Rewriter, missing: list[int]) -> list[int]:
    """Padding in front of each axis."""
    auto = r.attribute("auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        return [(n + (auto == b"SAME_LOWER")) // 2 for n in missing]
    pads: list[int] = r.attribute("pads", [0] * 2 * len(missing))
    return pads[: len(missing)]


def _padded(r: Rewriter, x: str, before: list[int], after: list[int]) -> str:
    """With what is never the largest around it."""
    floats = r.dtype(x) == TensorProto.FLOAT
    if not floats:  # a byte has no smaller one than its smallest
        x = r.op("Cast", x, to=TensorProto.INT32)
    if not any(before + after):
        return x
    pads = r.weight([0, 0, *before, 0, 0, *after], np.int64)
    least = r.weight(-np.inf, np.float32) if floats else r.weight(-1000, np.int32)
    return r.op("Pad", x, pads, least)
