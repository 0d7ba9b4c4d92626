"""The operator that adds rows to a decoder's cache; TVM carries it and fuses nothing with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.tensor_ir import Buffer, Program

APPEND_OP = "CacheAppend"
"""The ONNX operator that ``compiler.importer.cache`` writes: cache, rows and maybe a slot."""
CARRIER = "relax.call_pure_packed"
APPEND_ROWS = "cache_append_rows"
APPEND_COLUMNS = "cache_append_columns"
"""Names of the programs that stand for it; they have no stages, the plan has an instruction."""


class CacheAppend(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The cache with new rows from a slot on; with ``columns`` its last two axes are swapped."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        name = APPEND_COLUMNS if attr.get("columns", 0) else APPEND_ROWS
        return relax.call_pure_packed(name, *inputs, ty_args=inputs[0].ty)


def is_append(program: Program) -> bool:
    return program.name in (APPEND_ROWS, APPEND_COLUMNS)


def append_program(name: str, inputs: Sequence[Any], output: Any) -> Program:
    """The program of a carried call, from the values that it takes and gives."""
    buffers = [Buffer(f"in{i}", v.dtype, v.shape, "input") for i, v in enumerate(inputs)]
    buffers.append(Buffer("out0", output.dtype, output.shape, "output"))
    return Program(name, tuple(buffers), ())
