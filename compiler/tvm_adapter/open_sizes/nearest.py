"""Maps that are resized to other sizes: one code for all of them.

TVM's own divides whole numbers where one size is a multiple of the other. ONNX Runtime divides by
a scale that is rounded to float32, and at some sizes ends just below a whole place; so does this.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi
from tvm.relax.frontend.onnx import onnx_frontend

NEAREST_OP = "NearestPlace"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.forms.resize` writes: attributes
``sizes``, of the result, ``axes``, which are resized, their ``scales``, and Resize's ``how`` (its
coordinates) and ``mode``."""
ORIGINS = ("asymmetric", "half_pixel", "tf_half_pixel_for_nn")
"""Coordinates whose places are a quotient by the scale."""
_TIE = 1e-6
"""ONNX Runtime takes a place for one between two elements that is so near to it."""


class NearestPlace(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The element nearest to the place of each result."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        how, mode = attr["how"].decode(), attr["mode"].decode()
        sizes = [int(n) for n in attr["sizes"]]
        scales = dict(zip(map(int, attr["axes"]), attr["scales"], strict=True))

        def resized(source: Any) -> Any:
            def place(axis: int, i: Any) -> Any:
                if axis not in scales:
                    return i
                near = _near(_origin(how, i, scales[axis]), mode).astype("int32")
                return te.max(te.min(near, source.shape[axis] - 1), 0)

            def at(*index: Any) -> Any:
                return source(*(place(axis, i) for axis, i in enumerate(index)))

            return te.compute(sizes, at, name="resize", tag=topi.tag.INJECTIVE)

        return bb.emit_te(resized, inputs[0], primfunc_name_hint="resize")


def _origin(how: str, i: Any, scale: float) -> Any:
    half = 0.0 if how == "asymmetric" else 0.5
    x = i.astype("float32")
    x = x + _f32(half) if half else x
    x = x / _f32(scale)  # no product by the inverse, which is rounded otherwise
    return x - _f32(half) if how == "half_pixel" else x


def _near(x: Any, mode: str) -> Any:
    below = te.floor(x)
    if mode == "floor":
        return below
    if mode == "ceil":
        return te.ceil(x)
    tie = te.abs(x - below - _f32(0.5)) < _f32(_TIE)
    between = below if mode == "round_prefer_floor" else below + _f32(1.0)
    return tirx.Select(tie, between, te.floor(x + _f32(0.5)))


def _f32(value: float) -> Any:
    return tirx.const(value, "float32")
