"""Sessions of native ONNX Runtime: on the processor, and without its warnings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.model.feeds import GIVEN_AS

NO_PASSES = "ORT_DISABLE_ALL"
"""Every node runs as the model has it."""
PATIENT: Mapping[str, str] = MappingProxyType({"session.intra_op.allow_spinning": "0"})
"""An entry for jobs whose processor time is limited: threads that wait for others sleep. Else each
counts as one that works, of which there are as many as the machine has cores."""


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


_OWN = {{"float64": "tensor(double)"}.get(name, f"tensor({name})"): name for name in GIVEN_AS}
"""Dtypes of inputs that are given in another one, by what a session calls them."""


def widened(session: Any, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays in the dtypes of the session's inputs, which are others everywhere else here."""
    own = {port.name: _OWN[port.type] for port in session.get_inputs() if port.type in _OWN}
    return {n: a.astype(own.get(n, a.dtype), copy=False) for n, a in feeds.items()}
