"""Native ONNX Runtime with sums of bytes that no processor saturates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from nnjit_studio.compiler.onnx_file.native import NO_PASSES, native_session
from nnjit_studio.compiler.oracle.exact_sums import with_exact_sums


def exact_session(model: Path | onnx.ModelProto, passes: bool = True) -> Any:
    """A session of a model, with ONNX Runtime's graph passes or without."""
    loaded = onnx.load(str(model)) if isinstance(model, Path) else model
    data = with_exact_sums(loaded).SerializeToString()
    level = "ORT_ENABLE_ALL" if passes else NO_PASSES
    entries = {"session.x64quantprecision": "1"}  # where passes make products
    return native_session(data, level, entries, intra_op_num_threads=1)
