"""The operator that stands for a loop whose body is imported apart; TVM carries it as one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Const, Expr, Load, Program, Stage, Store

LOOP_OP = "CountedLoop"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.control.bodies` writes. The
attribute ``form`` names the body, ``results`` has a text of dtype and sizes for each result."""
LOOP_FORM = "counted loop "
"""What the names of all bodies begin with."""


class CountedLoop(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The loop as one call, of a tuple where there are several results."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        types = []
        for text in attr["results"]:
            dtype, *sizes = text.decode().split()
            types.append(relax.TensorType([int(n) for n in sizes], dtype))
        result = types[0] if len(types) == 1 else relax.TupleType(types)
        call = relax.call_pure_packed(attr["form"].decode(), *inputs, ty_args=result)
        return call if len(types) == 1 else bb.emit(call)


def is_loop(program: Program) -> bool:
    return program.name.startswith(LOOP_FORM)


def loop_program(form: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Program:
    """A program that never runs, since the body does: it reads all and writes all, in steps, into
    which nothing folds."""
    buffers = [Buffer(f"in{i}", v.dtype, v.shape, "input") for i, v in enumerate(inputs)]
    buffers += [Buffer(f"out{i}", v.dtype, v.shape, "output") for i, v in enumerate(outputs)]
    read: Expr = Const(0, "i32")
    for i in range(len(inputs)):
        read = read + Load(f"in{i}", int32(0))
    steps = tuple(Store(f"out{i}", int32(0), read) for i in range(len(outputs)))
    return Program(form, tuple(buffers), (Stage("loop", (), steps=steps),))
