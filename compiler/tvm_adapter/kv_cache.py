"""The operator that adds rows to a decoder's cache; TVM carries it and fuses nothing with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Cast, Load, Program, Stage, Store, Var

APPEND_OP = "CacheAppend"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.decoder.kv_cache` writes: cache, rows
and an optional slot."""
CARRIER = "relax.call_pure_packed"
APPEND_ROWS = "cache_append_rows"
APPEND_COLUMNS = "cache_append_columns"
APPENDS = (APPEND_ROWS, APPEND_COLUMNS)
"""Names of the programs that stand for it."""


class CacheAppend(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The cache with new rows from a slot on; with ``columns`` its last two axes are swapped."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        name = APPEND_COLUMNS if attr.get("columns", 0) else APPEND_ROWS
        return relax.call_pure_packed(name, *inputs, ty_args=inputs[0].ty)


def is_append(program: Program) -> bool:
    return program.name in APPENDS


def append_program(name: str, inputs: Sequence[Any], output: Any) -> Program:
    """The program of a carried call, from the values that it takes and gives.

    It writes the new rows alone: the plan has an instruction for it, over one
    buffer that is both cache and result. Nothing folds into ``steps``.
    """
    buffers = [Buffer(f"in{i}", v.dtype, v.shape, "input") for i, v in enumerate(inputs)]
    buffers.append(Buffer("out0", output.dtype, output.shape, "output"))
    *batch, rows, width = inputs[1].shape
    heads, columns = math.prod(batch), name == APPEND_COLUMNS
    capacity = output.shape[-1 if columns else -2]
    head, row, column = Var("h"), Var("r"), Var("w")
    slot = Cast(Load("in2", int32(0)), "i32") + row if len(inputs) > 2 else row
    source = (head * rows + row) * width + column
    if columns:
        target = (head * width + column) * capacity + slot
    else:
        target = (head * capacity + slot) * width + column
    axes = (Axis("h", heads), Axis("r", rows), Axis("w", width))
    step = Store("out0", target, Load("in1", source))
    return Program(name, tuple(buffers), (Stage(name, axes, steps=(step,)),))
