"""Converter of convolutions of bytes, channels last: products of patches, or sums by channel.

A border holds the zero point, so that the correction sums of products hold there too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax, te, tirx
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.recognize.quantised import INT8_IN_WORD
from nnjit_studio.compiler.tvm_adapter.quantised import (
    MATMUL_LIKE,
    Moved,
    known_array,
    optional_input,
    product_of_bytes,
    shape_of,
    signed_bytes,
)

INTEGER_CONV = "IntegerConv"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.bytes.integer_conv` writes:
image, weights and, where there are any, zero points of both."""

_OPAQUE = 8
"""TVM's pattern kOpaque: nothing is fused with it, so that no patch is computed twice."""


@dataclass(frozen=True)
class _Window:
    """The geometry of a convolution, a number for each axis of the image."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, image: Sequence[int], kernel: Sequence[int], attr: Any) -> _Window:
        rank = len(kernel)
        strides, dilations = (
            tuple(int(v) for v in attr.get(name, [1] * rank)) for name in ("strides", "dilations")
        )
        pads = [int(p) for p in attr.get("pads", [0] * 2 * rank)]
        auto = attr.get("auto_pad", "NOTSET")
        auto = auto.decode() if isinstance(auto, bytes) else str(auto)
        if auto.startswith("SAME"):
            reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
            whole = [
                max(0, (-(-size // s) - 1) * s + r - size)
                for size, s, r in zip(image, strides, reach, strict=True)
            ]
            small = [w // 2 for w in whole]
            large = [w - s for w, s in zip(whole, small, strict=True)]
            pads = [*small, *large] if auto == "SAME_UPPER" else [*large, *small]
        return cls(tuple(kernel), strides, dilations, tuple(pads[:rank]), tuple(pads[rank:]))

    @property
    def padded(self) -> bool:
        return any((*self.before, *self.after))

    @property
    def plain(self) -> bool:
        """Whether each output position has its own one of the image, in the same order."""
        return math.prod((*self.kernel, *self.strides)) == 1

    def results(self, padded: Sequence[int]) -> list[int]:
        """Output sizes of an image that has its borders."""
        sizes = zip(padded, self.kernel, self.strides, self.dilations, strict=True)
        return [(size - (k - 1) * d - 1) // s + 1 for size, k, s, d in sizes]

    def place(self, at: Sequence[Any], tap: Sequence[Any]) -> list[Any]:
        parts = zip(at, tap, self.strides, self.dilations, strict=True)
        return [p * s + t * d for p, t, s, d in parts]


class IntegerConv(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """``x`` (N, *image, C) with weights (O, C / group, *kernel) to int32 (N, *image, O)."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x, weight, zero_w = inputs[0], known_array(inputs[1]), optional_input(inputs, 3)
        zero_w = None if zero_w is None else known_array(zero_w)
        assert weight is not None
        wide = weight.astype(np.int32)
        zero = np.zeros(1, np.int32) if zero_w is None else zero_w.astype(np.int32).reshape(-1)
        zero = np.broadcast_to(zero, wide.shape[:1])
        window = _Window.of(shape_of(x)[1:-1], wide.shape[2:], attr)
        zero_x = optional_input(inputs, 2)
        if zero_x is not None:
            zero_x = bb.normalize(relax.op.astype(zero_x, "int32"))
            zero_x = bb.normalize(relax.op.reshape(zero_x, ()))
        if int(attr.get("group", 1)) > 1:
            values = wide - zero.reshape(-1, *[1] * (wide.ndim - 1))
            return _by_channel(bb, x, zero_x, values, window)
        x, zero_x = signed_bytes(bb, x, zero_x)
        zero_x = None if zero_x is None else bb.normalize(zero_x)
        return _by_product(bb, x, zero_x, wide, zero, window)


def _by_channel(bb: Any, x: Any, zero: Any, weight: NDArray[np.int32], window: _Window) -> Any:
    """Each channel of its own: weights are less their zero points, and stay int32."""
    taps = np.ascontiguousarray(np.moveaxis(weight[:, 0], 0, -1))
    x = _padded(bb, x, zero, window, shape_of(x)[-1])

    def total(data: Any, held: Any) -> Any:
        axes = [te.reduce_axis((0, k), name=f"k{i}") for i, k in enumerate(window.kernel)]

        def at(*place: Any) -> Any:
            image = window.place(place[1:-1], axes)
            source, tap = (place[0], *image, place[-1]), (*axes, place[-1])
            value = data[source].astype("int32")
            return te.sum(value * held[tap], axis=axes)

        image = window.results([int(d) for d in data.shape[1:-1]])
        return te.compute((data.shape[0], *image, data.shape[-1]), at, name="depthwise_int8")

    attrs = {"op_pattern": MATMUL_LIKE}
    result = bb.emit_te(total, x, relax.const(taps), primfunc_attrs=attrs)
    if zero is None:
        return result
    sums = relax.const(taps.sum(axis=tuple(range(taps.ndim - 1)), dtype=np.int32))
    return relax.op.subtract(result, relax.op.multiply(sums, zero))


def _by_product(
    bb: Any,
    x: Any,
    zero_x: Any,
    weight: NDArray[np.int32],
    zero: NDArray[np.int32],
    window: _Window,
) -> Any:
    """Patches as rows of a matrix; channels are added up to whole words with nothing in them."""
    channels = weight.shape[1]
    if not window.plain or window.padded:
        channels += -channels % INT8_IN_WORD
        x = _patches(bb, _padded(bb, x, zero_x, window, channels), window)
    rows = np.moveaxis(weight, 0, -1)  # channels, *kernel, outputs
    missing = np.broadcast_to(zero, (channels - len(rows), *rows.shape[1:]))
    matrix = np.moveaxis(np.concatenate([rows, missing]), 0, -2)
    matrix = matrix.reshape(-1, matrix.shape[-1])
    return product_of_bytes(bb, x, zero_x, Moved.of(matrix, zero))


def _padded(bb: Any, x: Any, zero: Any, window: _Window, channels: int) -> Any:
    """The image with borders, and channels up to a number, of zero points."""
    held = shape_of(x)[-1]
    if not window.padded and channels == held:
        return x

    def compute(data: Any, *given: Any) -> Any:
        image = [int(d) for d in data.shape[1:-1]]
        whole = [
            b + size + a for b, size, a in zip(window.before, image, window.after, strict=True)
        ]

        def at(*place: Any) -> Any:
            moved = [p - b for p, b in zip(place[1:-1], window.before, strict=True)]
            inside = [te.all(p >= 0, p < size) for p, size in zip(moved, image, strict=True)]
            if channels > held:
                inside.append(place[-1] < held)
            border = given[0]().astype(data.dtype) if given else tirx.const(0, data.dtype)
            source = (place[0], *moved, place[-1])
            return te.if_then_else(te.all(*inside), data[source], border)

        return te.compute((data.shape[0], *whole, channels), at, name="pad_bytes")

    return bb.emit_te(compute, x, *([] if zero is None else [zero]))


def _patches(bb: Any, x: Any, window: _Window) -> Any:
    """Rows of (*kernel, channels) at each output position."""

    def compute(data: Any) -> Any:
        image = window.results([int(d) for d in data.shape[1:-1]])
        rank = len(image)

        def at(*place: Any) -> Any:
            image = window.place(place[1 : 1 + rank], place[1 + rank : -1])
            source = (place[0], *image, place[-1])
            return data[source]

        shape = (data.shape[0], *image, *window.kernel, data.shape[-1])
        return te.compute(shape, at, name="patches")

    patches = bb.emit_te(compute, x, primfunc_attrs={"op_pattern": _OPAQUE})
    shape, rank = shape_of(patches), len(window.kernel)
    flat = (*shape[: 1 + rank], math.prod(shape[1 + rank :]))
    return bb.normalize(relax.op.reshape(patches, flat))
