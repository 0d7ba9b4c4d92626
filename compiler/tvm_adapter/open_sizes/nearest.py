"""Maps that are resized to other sizes: one code for all of them.

TVM's own divides whole numbers where one size is a multiple of the other.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi
from tvm.relax.frontend.onnx import onnx_frontend

NEAREST_OP = "NearestBelow"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.forms.resize` writes: attributes
``sizes``, of the result, and ``axes``, which are resized."""
_NEAR = 1e-5
"""What is added to a place before its floor: a multiple of a rounded quotient may be just below."""


class NearestBelow(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The element at or before the place of each result."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        sizes, axes = [int(n) for n in attr["sizes"]], set(attr["axes"])

        def resized(source: Any) -> Any:
            def place(axis: int, i: Any) -> Any:
                if axis not in axes:
                    return i
                last = int(source.shape[axis]) - 1
                scale = tirx.const((last + 1) / sizes[axis], "float32")
                below = te.floor(i.astype("float32") * scale + tirx.const(_NEAR, "float32"))
                return te.min(below.astype("int32"), last)

            def at(*index: Any) -> Any:
                return source(*(place(axis, i) for axis, i in enumerate(index)))

            return te.compute(sizes, at, name="resize", tag=topi.tag.INJECTIVE)

        return bb.emit_te(resized, inputs[0], primfunc_name_hint="resize")
