"""Sums of squares along the last axis, made while the elements are read once.

TVM's own form is a product and a sum: a root mean square then takes two kernels, and room for the
squares between them.
"""

from __future__ import annotations

from typing import Any

from tvm import te
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.tvm_adapter.quantised import known_array


class ReduceSumSquare(onnx_frontend.ReduceSumSquare):  # type: ignore[misc]
    """As the frontend's, of the last axis alone by itself."""

    @classmethod
    def _impl_v13(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if list(attr.get("axes") or ()) == [-1] and attr.get("keepdims", 1):
            return bb.emit_te(_sum_of_squares, inputs[0])
        return super()._impl_v13(bb, inputs, attr, params)

    @classmethod
    def _impl_v18(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        axes = known_array(inputs[1]) if len(inputs) > 1 else None
        if axes is not None and axes.tolist() == [-1]:
            return cls._impl_v13(bb, inputs, {**attr, "axes": [-1]}, params)
        return super()._impl_v18(bb, inputs, attr, params)


def _sum_of_squares(x: Any) -> Any:
    q = te.reduce_axis((0, x.shape[-1]), name="q")

    def total(*at: Any) -> Any:
        place = (*at[:-1], q)
        value = x[place]
        return te.sum(value * value, axis=[q])

    return te.compute((*x.shape[:-1], 1), total, name="sum_of_squares")
