"""Transposed convolutions, written as convolutions whose channels become pixels.

Of stride ``s``, output ``q * s + r`` is the sum over ``j`` of ``x[q - j] * w[j * s + r]``: for each
``r`` a convolution of its own, a row of ``ceil(kernel / s)`` weights with its end first. They run
as one with ``s`` (or, of images, ``s * s``) times the channels (W. Shi and others, "Real-Time
Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
Network", 2016).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter

_TO_THE_END = 2**31 - 1
_PADDING = ("auto_pad", "output_padding", "output_shape", "pads")


def conv_transpose(r: Rewriter) -> bool:
    """Of one group with constant weights, along one axis or with one stride along both."""
    x, w, bias = (*r.node.input, "")[:3]
    _name_pads(r)
    weight = r.constants.get(w)
    if weight is None or weight.ndim not in (3, 4) or (bias and bias not in r.constants):
        return False
    spatial = weight.ndim - 2
    kernel = weight.shape[2:]
    strides = set(r.attribute("strides", [1] * spatial))
    dilated = max(r.attribute("dilations", [1])) > 1
    if dilated or r.attribute("group", 1) != 1 or len(strides) > 1:
        return False
    stride = strides.pop()
    taps = [math.ceil(k / stride) for k in kernel]
    pads = r.attribute("pads", [0] * 2 * spatial)
    longer = r.attribute("output_padding", [0] * spatial)
    over = [
        t * stride - k + end - more
        for t, k, end, more in zip(taps, kernel, pads[spatial:], longer, strict=True)
    ]
    if min(over) < 0 or min(pads) < 0:
        return False
    cut = any(over) or any(pads[:spatial])
    given = [x, r.weight(_of_each_pixel(weight, taps, stride))]
    if bias:
        given.append(r.weight(np.tile(r.constants[bias], stride**spatial)))
    out = r.node.output[0]
    around = [t - 1 for t in taps] * 2
    last = "" if cut else out
    many = r.op("Conv", *given, out="" if stride > 1 else last, kernel_shape=taps, pads=around)
    if stride > 1:
        many = _pixels(r, many, weight.shape[1], stride, spatial, last)
    if cut:
        ends = [-n if n else _TO_THE_END for n in over]
        _slice(r, many, pads[:spatial], ends, list(range(2, 2 + spatial)), out)
    return True


def _name_pads(r: Rewriter) -> None:
    """Write the wanted size of a node as pads, as ONNX defines them."""
    sizes = [
        list(shape or ())[2:] for _, shape in (r.types.get(n, (0, None)) for n in r.node.input)
    ]
    wanted, auto = r.attribute("output_shape", []), r.attribute("auto_pad", b"NOTSET")
    if not sizes[0] or not sizes[1] or not (wanted or auto in (b"SAME_UPPER", b"SAME_LOWER")):
        return
    spatial = len(sizes[0])
    steps = [r.attribute(n, [1] * spatial) for n in ("strides", "dilations")]
    longer = r.attribute("output_padding", [0] * spatial)
    wanted = wanted[-spatial:] or [n * s for n, s in zip(sizes[0], steps[0], strict=True)]
    first, last = [], []
    for d in range(spatial):
        kernel = (sizes[1][d] - 1) * steps[1][d] + 1
        over = (sizes[0][d] - 1) * steps[0][d] + longer[d] + kernel - wanted[d]
        longer[d] += max(-over, 0)
        over = max(over, 0)
        first.append(over // 2 if auto == b"SAME_UPPER" else over - over // 2)
        last.append(over - first[-1])
    kept = [a for a in r.node.attribute if a.name not in _PADDING]
    del r.node.attribute[:]
    r.node.attribute.extend(kept)
    r.node.attribute.append(helper.make_attribute("pads", first + last))
    r.node.attribute.append(helper.make_attribute("output_padding", longer))


def _of_each_pixel(weight: NDArray[Any], taps: list[int], stride: int) -> NDArray[Any]:
    """Weights (pixels of a block * channels, inputs, taps), from (inputs, channels, kernel)."""
    spatial = len(taps)
    wanted = [(0, t * stride - k) for t, k in zip(taps, weight.shape[2:], strict=True)]
    padded = np.pad(weight, [(0, 0), (0, 0), *wanted])
    blocks = padded.reshape(*weight.shape[:2], *(n for t in taps for n in (t, stride)))
    rows, pixels = [2 + 2 * i for i in range(spatial)], [3 + 2 * i for i in range(spatial)]
    flipped = np.flip(blocks, tuple(rows)).transpose(*pixels, 1, 0, *rows)
    return np.ascontiguousarray(flipped).reshape(-1, weight.shape[0], *taps)


def _pixels(r: Rewriter, x: str, channels: int, stride: int, spatial: int, out: str) -> str:
    """Channels of each block as its pixels."""
    if spatial == 2:
        return r.op("DepthToSpace", x, out=out, blocksize=stride)
    apart = r.op("Reshape", x, r.weight([0, stride, channels, -1], np.int64))
    turned = r.op("Transpose", apart, perm=[0, 2, 3, 1])
    return r.op("Reshape", turned, r.weight([0, channels, -1], np.int64), out=out)


def _slice(
    r: Rewriter, x: str, starts: list[int], ends: list[int], axes: list[int], out: str
) -> None:
    if r.opset < 10:
        r.op("Slice", x, out=out, starts=starts, ends=ends, axes=axes)
        return
    r.op("Slice", x, *(r.weight(part, np.int64) for part in (starts, ends, axes)), out=out)
