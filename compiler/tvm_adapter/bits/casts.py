"""Converters of what looks at the bits of floats: BitCast, and numbers rounded to bfloat16."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.relax.frontend.onnx import onnx_frontend

BFLOAT16_OP = "RoundToBfloat16"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.single_precision` writes:
float32 to the nearest number that has the upper half of its bits alone, of two the even one."""
_DROPPED = 16
"""Bits of a float32 that bfloat16 has not."""


class BitCast(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Between float32 and int32; the importer's rule writes others by these two."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        kind = {"float32": "int32", "int32": "float32"}[str(inputs[0].ty.dtype)]

        def bit_cast(x: Any) -> Any:
            return te.compute(x.shape, lambda *at: tirx.reinterpret(kind, x[at]))

        return bb.emit_te(bit_cast, inputs[0])


class RoundToBfloat16(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Rounded as whole numbers, where a carry grows the exponent; NaN stays as it is."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        def rounded(value: Any) -> Any:
            bits = tirx.reinterpret("int32", value)
            half = 1 << _DROPPED - 1
            added = tirx.Select((bits & (1 << _DROPPED)).equal(0), half - 1, half)
            near = (bits + added) & -(1 << _DROPPED)
            return tirx.Select(tirx.isnan(value), value, tirx.reinterpret("float32", near))

        def bfloat16(x: Any) -> Any:
            return te.compute(x.shape, lambda *at: rounded(x[at]))

        return bb.emit_te(bfloat16, inputs[0])
