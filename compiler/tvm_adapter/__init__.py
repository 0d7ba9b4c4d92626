"""The only room that imports TVM (0.27): ONNX in, calls of tensor-IR programs out."""

from nnjit_studio.compiler.tvm_adapter.kv_cache import APPEND_COLUMNS, APPEND_OP, is_append
from nnjit_studio.compiler.tvm_adapter.origins import Origin
from nnjit_studio.compiler.tvm_adapter.relax_import import (
    ImportedCalls,
    ProgramCall,
    Value,
    import_calls,
    supported_operators,
)

__all__ = [
    "APPEND_COLUMNS",
    "APPEND_OP",
    "ImportedCalls",
    "Origin",
    "ProgramCall",
    "Value",
    "import_calls",
    "is_append",
    "supported_operators",
]
