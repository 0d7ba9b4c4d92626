"""Converter of tables over the values of a byte."""

from __future__ import annotations

from typing import Any

from tvm import te
from tvm.relax.frontend.onnx import onnx_frontend

BYTE_FUNCTION = "ByteFunction"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.byte_functions` writes: bytes,
and the results for all values from the smallest on."""


class ByteFunction(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Bytes of any shape to bytes of the table's dtype."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        def byte_function(x: Any, table: Any) -> Any:
            smallest = -128 if x.dtype == "int8" else 0
            return te.compute(x.shape, lambda *at: table[x[at].astype("int32") - smallest])

        return bb.emit_te(byte_function, *inputs)
