"""DFT of a known length, as two matmuls with constant cosines and sines."""

from __future__ import annotations

import numpy as np

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
    length = shape[axis]
    if rest[0] and int(r.constant(1, "length").reshape(-1)[0]) != length:
        raise r.refuse("a length equal to its axis")
    if length > MAX_LENGTH:
        raise r.refuse(f"a length of at most {MAX_LENGTH}")
    inverse, one_sided = r.attribute("inverse", 0), r.attribute("onesided", 0)
    if inverse and one_sided:
        raise r.refuse("onesided 0 with inverse 1")
    count = length // 2 + 1 if one_sided else length
    angle = 2 * np.pi * np.outer(np.arange(length), np.arange(count)) / length
    scale = 1 / length if inverse else 1.0
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
        parts = [
            r.op("Sub", r.op("MatMul", re, c), r.op("MatMul", im, s)),
            r.op("Add", r.op("MatMul", re, s), r.op("MatMul", im, c)),
        ]
    both = r.op("Concat", *parts, axis=last - 1)
    back = [order.index(a) for a in range(last + 1)]
    r.op("Transpose", both, perm=back, out=r.node.output[0])
    return True
