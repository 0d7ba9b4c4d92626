"""Sessions of native ONNX Runtime: on the processor, and without its warnings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_PASSES = "ORT_DISABLE_ALL"
"""Every node runs as the model has it."""


def native_session(
    model: bytes | str | Path,
    passes: str = "ORT_ENABLE_ALL",
    entries: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> Any:
    """A session of a model in memory, or of a file.

    Parameters
    ----------
    passes
        Name of a ``GraphOptimizationLevel``.
    entries, options
        Configuration entries and fields of ``SessionOptions``.

    Raises
    ------
    Exception
        Of ONNX Runtime, whose exceptions have no common class.
    """
    import onnxruntime

    given = onnxruntime.SessionOptions()
    given.log_severity_level = 4
    given.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, passes)
    for name, value in options.items():
        setattr(given, name, value)
    for entry, value in entries.items():
        given.add_session_config_entry(entry, value)
    return onnxruntime.InferenceSession(model, given, providers=["CPUExecutionProvider"])


def widened(session: Any, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays with those of float64 inputs in that, which are float32 everywhere else here."""
    wide = {port.name for port in session.get_inputs() if port.type == "tensor(double)"}
    return {n: a.astype(np.float64) if n in wide else a for n, a in feeds.items()}
