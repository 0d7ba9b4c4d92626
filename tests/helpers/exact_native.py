"""Native ONNX Runtime with sums of bytes that no processor saturates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from nnjit_studio.compiler.oracle.exact_sums import with_exact_sums


def exact_session(model: Path | onnx.ModelProto, passes: bool = True) -> Any:
    """A session of a model, with ONNX Runtime's graph passes or without."""
    loaded = onnx.load(str(model)) if isinstance(model, Path) else model
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # where passes make products
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not passes:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = with_exact_sums(loaded).SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
