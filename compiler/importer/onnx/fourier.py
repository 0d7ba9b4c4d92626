"""DFT of a known length, as two matmuls with constant cosines and sines, or a convolution."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter

MAX_LENGTH = 2048
"""The constants have the square of it."""


def dft(r: Rewriter) -> bool:
    """``X[k] = sum x[n] exp(-2 pi i k n / N)``: the ONNX operator page DFT.

    The last dimension of the input is 1 (real) or 2 (real, imaginary).
    """
    x, *rest = [*r.node.input, "", ""][:3]
    shape = r.shape(x)
    axis = r.attribute("axis", 1) if r.opset < 20 else -2
    if rest[1]:
        axis = int(r.constant(2, "axis").reshape(-1)[0])
    axis %= len(shape)
    inverse, one_sided = r.attribute("inverse", 0), r.attribute("onesided", 0)
    given = shape[axis]
    length = 2 * (given - 1) if inverse and one_sided else given
    wanted = int(r.constant(1, "length").reshape(-1)[0]) if rest[0] else length
    if inverse and one_sided and wanted // 2 >= given:
        raise r.refuse("half a spectrum of its length")
    length = wanted
    if length > MAX_LENGTH:
        raise r.refuse(f"a length of at most {MAX_LENGTH}")
    count = length // 2 + 1 if one_sided and not inverse else length
    angle = 2 * np.pi * np.outer(np.arange(given), np.arange(count)) / length
    scale = np.array(1 / length if inverse else 1.0)
    if inverse and one_sided:
        # The other half mirrors this one, all but its ends.
        again = [k not in (0, length / 2) and k <= length // 2 for k in range(given)]
        scale = scale * (1 + np.array(again))[:, None] * (np.arange(given) <= length // 2)[:, None]
    scale = scale * (np.arange(given) < length)[:, None]  # what is longer is cut, or zeros follow
    cosine, sine = np.cos(angle) * scale, np.sin(angle) * (scale if inverse else -scale)

    last = len(shape) - 1  # the pair; the transformed axis goes before it, then to the end
    order = [a for a in range(last) if a != axis] + [last, axis]
    moved = r.op("Transpose", x, perm=order)
    if shape[-1] == 1:
        # [.., 1, N] times [N, count] twice, side by side
        parts = [r.op("MatMul", moved, r.weight(m, np.float32)) for m in (cosine, sine)]
    else:
        re, im = r.split(moved, [1, 1], last - 1)
        c, s = r.weight(cosine, np.float32), r.weight(sine, np.float32)
        parts = [r.op("Sub", r.op("MatMul", re, c), r.op("MatMul", im, s))]
        if not (inverse and one_sided):  # whose results are real
            parts.append(r.op("Add", r.op("MatMul", re, s), r.op("MatMul", im, c)))
    both = r.op("Concat", *parts, axis=last - 1) if len(parts) > 1 else parts[0]
    back = [order.index(a) for a in range(last + 1)]
    r.op("Transpose", both, perm=back, out=r.node.output[0])
    return True


def tell_sides(graph: onnx.GraphProto) -> None:
    """Write out what an STFT has by default: ONNX's shape inference takes the other way for it."""
    for node in graph.node:
        if node.op_type == "STFT" and all(a.name != "onesided" for a in node.attribute):
            node.attribute.append(helper.make_attribute("onesided", 1))


def stft(r: Rewriter) -> bool:
    """Of a real signal: a convolution, whose weights are the window times cosines and sines."""
    x, _, window, length = [*r.node.input, ""][:4]
    shape = r.shape(x)
    if len(shape) > 2 and shape[2] != 1:
        raise r.refuse("a real signal")
    stride = int(r.constant(1, "step").reshape(-1)[0])
    held = r.constant(2, "window") if window else None
    if held is None and not length:
        raise r.refuse("a window or a length")
    size = len(held) if held is not None else int(r.constant(3, "length").reshape(-1)[0])
    if not 0 < size <= MAX_LENGTH:
        raise r.refuse(f"a length from 1 to {MAX_LENGTH}")
    shares = np.ones(size) if held is None else held.astype(np.float64)
    count = size // 2 + 1 if r.attribute("onesided", 1) else size
    angle = 2 * np.pi * np.outer(np.arange(count), np.arange(size)) / size
    both = np.stack([np.cos(angle), -np.sin(angle)], axis=1) * shares
    lines = r.op("Reshape", x, r.weight([shape[0], 1, shape[1]], np.int64))
    kernel = r.weight(both.reshape(2 * count, 1, size), np.float32)
    made = r.op("Conv", lines, kernel, strides=[stride], kernel_shape=[size])
    turned = r.op("Transpose", made, perm=[0, 2, 1])
    frames = r.weight([shape[0], -1, count, 2], np.int64)
    r.op("Reshape", turned, frames, out=r.node.output[0])
    return True
