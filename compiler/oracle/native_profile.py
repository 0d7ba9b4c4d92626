"""Time of a model in native ONNX Runtime, whole and by node, as a first look at what has no import.

Runs in the compile process: the model is untrusted. One thread, the runtime's own optimisations.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.onnx_file.native import native_session, widened
from nnjit_studio.compiler.oracle.onnx_reference import refused
from nnjit_studio.model.native_run import NativeRun, NodeTime

RUNS = 10
LONGEST_S = 10.0
"""No run begins after so many seconds."""


def native_profile(path: Path, feeds: Mapping[str, NDArray[Any]]) -> NativeRun:
    """Run a model on these inputs.

    Raises
    ------
    UserError
        When ONNX Runtime cannot run it.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            session = native_session(
                path, intra_op_num_threads=1, enable_profiling=True,
                profile_file_prefix=str(Path(folder) / "run"),
            )  # fmt: skip
            given = widened(session, feeds)
            session.run(None, given)
            whole: list[float] = []
            began = time.perf_counter()
            while len(whole) < RUNS and (not whole or time.perf_counter() - began < LONGEST_S):
                start = time.perf_counter()
                values = session.run(None, given)
                whole.append((time.perf_counter() - start) * 1e3)
            trace = json.loads(Path(session.end_profiling()).read_text())
        except Exception as e:  # its exceptions have no common class
            raise refused(e) from e
    names = [port.name for port in session.get_outputs()]
    arrays = {n: v for n, v in zip(names, values, strict=True) if isinstance(v, np.ndarray)}
    return NativeRun(statistics.median(whole), len(whole), _nodes(trace), arrays)


def _nodes(trace: list[dict[str, Any]]) -> tuple[NodeTime, ...]:
    """Median time of each node's kernel, the longest first."""
    found: dict[tuple[str, str], list[float]] = {}
    for event in trace:
        name = str(event.get("name", ""))
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            op = str(event.get("args", {}).get("op_name", ""))
            found.setdefault((name.removesuffix("_kernel_time"), op), []).append(event["dur"] / 1e3)
    nodes = (NodeTime(n, op, statistics.median(ms)) for (n, op), ms in found.items())
    return tuple(sorted(nodes, key=lambda node: -node.ms))
