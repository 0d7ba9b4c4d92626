"""Operators that give as many results as their data says; TVM carries each as one call.

The first result has room for the most that there may be, zeros behind those that there are; the
second, i64 of one element, tells how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Buffer,
    Const,
    Loop,
    Program,
    Stage,
    Statement,
    Store,
    Var,
)
from nnjit_studio.compiler.tvm_adapter.found.searches import Limits, boxes, places

PLACES_OP = "FoundPlaces"
"""Places of elements that are not zero, as NonZero gives them: [rank, elements]."""
BOXES_OP = "FoundBoxes"
"""NonMaxSuppression with its limits as attributes: ``most`` boxes of a class, ``overlap``,
``score`` where it has one, and ``center``; a third input tells how many boxes there are."""
FOUND_FORM = "found "
"""What the forms of both begin with."""


class FoundPlaces(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The search as one call."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        shape = [int(d) for d in inputs[0].ty.shape]
        return _carried(bb, f"{FOUND_FORM}places", inputs, [len(shape), math.prod(shape)])


class FoundBoxes(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The suppression as one call."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        batch, classes, _ = (int(d) for d in inputs[1].ty.shape)
        words = [attr.get(word) for word in ("most", "overlap", "score", "center")]
        form = f"{FOUND_FORM}boxes {' '.join(map(str, words))}"
        return _carried(bb, form, inputs, [batch * classes * attr["most"], 3])


def _carried(bb: Any, form: str, inputs: Any, shape: list[int]) -> Any:
    kinds = [relax.TensorType(shape, "int64"), relax.TensorType([1], "int64")]
    return bb.emit(relax.call_pure_packed(form, *inputs, ty_args=relax.TupleType(kinds)))


def found_program(form: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Program:
    """The program of a carried call, from the values that it takes and gives."""
    kind, *words = form.removeprefix(FOUND_FORM).split()
    buffers = [
        Buffer(f"in{i}", v.dtype, v.shape, "input", v.constant is not None)
        for i, v in enumerate(inputs)
    ]
    buffers += [Buffer(f"out{i}", v.dtype, v.shape, "output") for i, v in enumerate(outputs)]
    start: list[Statement] = [
        Loop("z", math.prod(outputs[0].shape), (Store("out0", Var("z"), Const(0, "i64")),)),
        Store("out1", int32(0), Const(0, "i64")),
    ]
    if kind == "places":
        search = places(inputs[0])
    else:
        most, overlap, score, center = words
        least = None if score == str(None) else float(score)
        limits = Limits(int(most), float(overlap), least, center == "1", len(inputs) > 2)
        search = boxes(inputs[1].shape, limits)
        buffers.append(Buffer("ws0", "i32", (inputs[1].shape[2],), "workspace"))
        buffers.append(Buffer("ws1", "i32", (1,), "workspace"))
    return Program(f"found_{kind}", tuple(buffers), (Stage(kind, (), steps=(*start, search)),))
