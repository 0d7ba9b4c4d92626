"""Reductions, scans and slices that TVM's frontend has as several operators, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, te, topi
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.tvm_adapter.quantised import known_array


class ReduceSumSquare(onnx_frontend.ReduceSumSquare):  # type: ignore[misc]
    """As the frontend's, which is a product and a sum, but of the last axis alone one kernel.

    A root mean square then takes one less, and no room for the squares.
    """

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


class ReduceLogSumExp(onnx_frontend.ReduceLogSumExp):  # type: ignore[misc]
    """As the frontend's, but what is taken off before exp is finite: of infinities it left none."""

    @classmethod
    def _impl_v13(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x, axes, kept = inputs[0], attr.get("axes"), bool(attr.get("keepdims", 1))
        most = float(np.finfo(str(x.ty.dtype)).max)
        top = relax.op.clip(relax.op.max(x, axes, True), -most, most)
        total = relax.op.sum(relax.op.exp(relax.op.subtract(x, top)), axes, True)
        out = relax.op.add(relax.op.log(total), top)
        return out if kept else relax.op.squeeze(out, axes)

    @classmethod
    def _impl_v18(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        axes = known_array(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None
        if axes is None or not axes.size:
            return super()._impl_v18(bb, inputs, attr, params)
        return cls._impl_v13(bb, inputs, {**attr, "axes": axes.tolist()}, params)


def _sum_of_squares(x: Any) -> Any:
    q = te.reduce_axis((0, x.shape[-1]), name="q")

    def total(*at: Any) -> Any:
        place = (*at[:-1], q)
        value = x[place]
        return te.sum(value * value, axis=[q])

    return te.compute((*x.shape[:-1], 1), total, name="sum_of_squares")


class CumProd(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """As the frontend's running sum, of products."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x, axis = inputs[0], known_array(inputs[1])
        if axis is None:
            raise ValueError("the axis has to be known ahead")
        along = int(axis.reshape(-1)[0])

        def turned(value: Any) -> Any:
            return bb.emit_te(topi.flip, value, axis=along) if attr.get("reverse", 0) else value

        made = relax.op.cumprod(turned(x), along, exclusive=bool(attr.get("exclusive", 0)))
        return turned(bb.normalize(made))


class Slice(onnx_frontend.Slice):  # type: ignore[misc]
    """As the frontend's, but limits may be attributes, as they are before opset 10."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = onnx_frontend.onnx_input(inputs)
        for name in ("starts", "ends", "axes") if "starts" in attr else ():
            # Without the dtype it would be 32 bits, in which the largest number is -1.
            given.append(relax.const(np.array(attr[name]), "int64") if name in attr else None)
        return cls._impl_v13(bb, given, attr, params)
