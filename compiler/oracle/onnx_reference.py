"""Every tensor of an ONNX model as native ONNX Runtime computes it.

Runs in the compile process: the model is untrusted, and ONNX Runtime may crash on it. Nothing is
optimised there, so that every tensor of the file exists.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.errors import UserError

MESSAGE_BYTES = 2**31 - 2**20
"""A protobuf message ends at 2 GiB; a larger model goes through a file."""


class OnnxReference:
    """A session of a model whose tensors can all be asked for.

    Attributes
    ----------
    nodes
        The name (or the first output) and the outputs of every node, in the file's order.

    Raises
    ------
    ModelError
        When the file is no valid model.
    UserError
        When ONNX Runtime cannot run it.
    """

    def __init__(self, path: Path) -> None:
        model = check.load_model(path)
        self.nodes = [(check.node_name(n), [o for o in n.output if o]) for n in model.graph.node]
        self._outputs = {o.name for o in model.graph.output}
        known = set(self._outputs)
        for _, outputs in self.nodes:
            new = [o for o in outputs if o not in known]
            model.graph.output.extend(onnx.ValueInfoProto(name=o) for o in new)
            known.update(new)
        self.tensors = frozenset(known)
        self._session = _session(model)

    def run(
        self, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """The named tensors of one inference."""
        wanted = {i.name for i in self._session.get_inputs()}
        try:
            values = self._session.run(
                list(names), {name: a for name, a in feeds.items() if name in wanted}
            )
        except Exception as e:  # its exceptions have no common class
            raise _refused(e) from e
        return dict(zip(names, map(np.asarray, values), strict=True))


def _session(model: onnx.ModelProto) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    try:
        if model.ByteSize() < MESSAGE_BYTES:
            return onnxruntime.InferenceSession(model.SerializeToString(), options, providers)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            onnx.save_model(model, str(file), save_as_external_data=True, location="weights")
            return onnxruntime.InferenceSession(str(file), options, providers)
    except Exception as e:
        raise _refused(e) from e


def _refused(error: Exception) -> UserError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    return UserError(
        f"Native ONNX Runtime cannot run the model: {reason}",
        "There is nothing to compare with; check the model and the inputs.",
    )
