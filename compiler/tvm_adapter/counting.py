"""Numbers counted from a start in equal steps, as a kernel; TVM would fold them to a constant."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Cast, Const, Program, Stage, Store, Var

COUNTING_OP = "Counting"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.fold` writes for a Range over a
size: attributes ``start``, ``step``, ``count`` and ``dtype``."""
COUNTING_FORM = "counting "
"""What the forms of all begin with; their start and step follow."""


class Counting(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The numbers as a call without inputs."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        form = f"{COUNTING_FORM}{attr['start']} {attr['step']}"
        kind = relax.TensorType([attr["count"]], attr["dtype"].decode())
        return relax.call_pure_packed(form, ty_args=kind)


def counting_program(form: str, output: Any) -> Program:
    """The program of a carried call, from the value that it gives."""
    (count,), dtype = output.shape, output.dtype
    kind = float if dtype.startswith("f") else int
    start, step = map(kind, form.removeprefix(COUNTING_FORM).split())
    number = Cast(Var("i"), dtype) if dtype != "i32" else Var("i")
    value = number * Const(step, dtype) + Const(start, dtype)
    buffers = (Buffer("out0", dtype, (count,), "output"),)
    stores = (Store("out0", Var("i"), value),)
    return Program("counting", buffers, (Stage("counting", (Axis("i", count),), stores),))
