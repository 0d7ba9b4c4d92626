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
from nnjit_studio.compiler.onnx_file.native import NO_PASSES, PATIENT, native_session
from nnjit_studio.compiler.oracle.exact_sums import with_exact_sums
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
        self._path = path
        self.nodes = [(check.node_name(n), [o for o in n.output if o]) for n in model.graph.node]
        self._outputs = {o.name for o in model.graph.output}
        known = set(self._outputs)
        for _, outputs in self.nodes:
            new = [o for o in outputs if o not in known]
            model.graph.output.extend(onnx.ValueInfoProto(name=o) for o in new)
            known.update(new)
        self.tensors = frozenset(known)
        self._session = _session(model)
        self._outputs_alone: Any = None

    def run(
        self, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """The named tensors of one inference.

        A tensor that a node writes may be fed too: what it depends on is then not computed.
        """
        session = self._session_for(feeds, names)
        wanted = {i.name for i in session.get_inputs()}
        try:
            values = session.run(
                list(names), {name: a for name, a in feeds.items() if name in wanted}
            )
        except Exception as e:  # its exceptions have no common class
            raise refused(e) from e
        return dict(zip(names, map(np.asarray, values), strict=True))

    def _session_for(self, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Any:
        """One of its own where an inner tensor is fed, and for outputs alone: a session in which
        every tensor is an output keeps them all, which takes gigabytes at large sizes."""
        if any(name in self.tensors for name in feeds):
            return _session(part_of(check.load_model(self._path), feeds, names))
        if not self._outputs.issuperset(names):
            return self._session
        self._outputs_alone = self._outputs_alone or _session(check.load_model(self._path))
        return self._outputs_alone


def part_of(
    model: onnx.ModelProto, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
) -> onnx.ModelProto:
    """The nodes between fed tensors and named ones, as a model of its own."""
    graph = model.graph
    writer = {out: i for i, node in enumerate(graph.node) for out in node.output if out}
    needed: set[int] = set()
    wanted = [name for name in names if name not in feeds]
    while wanted:
        place = writer.get(wanted.pop())
        if place is not None and place not in needed:
            needed.add(place)
            wanted += [name for name in reads(graph.node[place]) if name not in feeds]
    nodes = [graph.node[i] for i in sorted(needed)]
    read = {name for node in nodes for name in reads(node)}
    made = onnx.helper.make_graph(
        nodes,
        graph.name,
        [_value_info(name, array) for name, array in feeds.items() if name in read],
        [onnx.ValueInfoProto(name=name) for name in names],
        [weight for weight in graph.initializer if weight.name in read],
    )
    return onnx.helper.make_model(
        made, opset_imports=model.opset_import, ir_version=model.ir_version,
        functions=model.functions,
    )  # fmt: skip


def reads(node: onnx.NodeProto) -> list[str]:
    """What a node reads, with what the graphs inside it take from around them."""
    inner = [n for a in node.attribute for g in (a.g, *a.graphs) for n in g.node]
    return [name for name in node.input if name] + [r for n in inner for r in reads(n)]


def _value_info(name: str, array: NDArray[Any]) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, array.shape)


def run_part(
    part: onnx.ModelProto, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """The named outputs of a model that :func:`part_of` made.

    Raises
    ------
    UserError
        When ONNX Runtime cannot run it.
    """
    session = _session(part)
    wanted = {i.name for i in session.get_inputs()}
    try:
        values = session.run(list(names), {n: a for n, a in feeds.items() if n in wanted})
    except Exception as e:
        raise refused(e) from e
    return dict(zip(names, map(np.asarray, values), strict=True))


def _session(model: onnx.ModelProto) -> Any:
    model = with_exact_sums(model)
    entries = {**PATIENT, "session.disable_prepacking": "1"}  # it holds weights twice
    arena = False  # it would keep what the largest run took
    try:
        if model.ByteSize() < MESSAGE_BYTES:
            data = model.SerializeToString()
            return native_session(data, NO_PASSES, entries, enable_cpu_mem_arena=arena)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            onnx.save_model(model, str(file), save_as_external_data=True, location="weights")
            return native_session(file, NO_PASSES, entries, enable_cpu_mem_arena=arena)
    except Exception as e:
        raise refused(e) from e


def refused(error: Exception) -> UserError:
    """An error of ONNX Runtime as one sentence."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    return UserError(
        f"Native ONNX Runtime cannot run the model: {reason}",
        "There is nothing to compare with; check the model and the inputs.",
    )
