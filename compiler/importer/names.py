"""Names of tensors and nodes for people: those of the ONNX model wherever it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.compiler.importer.program.half_weights import imported
from nnjit_studio.compiler.onnx_file.check import content_key
from nnjit_studio.compiler.recognize.winograd import INPUT, PRODUCT
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.model import Node, Workload

PART_OF_WINOGRAD = {INPUT: " (tiles)", PRODUCT: " (winograd)"}
"""Suffix of a step's name; the last of the three steps has the convolution's own name."""


@dataclass(frozen=True)
class OnnxNames:
    """Inputs and outputs in the order of the imported function; who reads each initialiser."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Names:
    """Of one import, after its passes."""

    def __init__(self, onnx: OnnxNames, calls: ImportedCalls, imports: Import) -> None:
        self._readers = onnx.readers
        self._imports = imports
        self._label = dict(zip((v.name for v in calls.inputs), onnx.inputs, strict=True))
        self._weights: dict[str, str] = {}
        self._nodes: set[str] = set()
        known = zip((v.name for v in calls.outputs), onnx.outputs, strict=True)
        for name, label in (*known, *imports.tensors):
            self._label.setdefault(self.root(name), label)

    def root(self, name: str) -> str:
        """What a view is a view of; anything else itself."""
        return self._imports.views.get(name, name)

    def tensor(self, value: Value) -> str:
        if value.constant is None:
            root = self.root(value.name)
            return self._label.get(root, root)
        if value.name not in self._weights:
            known = self._imports.weight_names.get(content_key(imported(value)), "")
            self._weights[value.name] = known or f"constant_{value.name}"
        return self._weights[value.name]

    def node(self, call: ProgramCall, workload: Workload, position: int) -> Node:
        """The node of a call, by the ONNX nodes that it stands for."""
        sources: list[str] = []
        for value in call.inputs:
            if value.constant is not None:
                readers = self._readers.get(self.tensor(value), ())
                # A weight that many nodes share tells nothing about this one.
                if len(readers) == 1:
                    sources += readers
        known = (*sources, *call.origin.nodes)
        name = known[0] if known else f"{workload.kind}_{position}"
        name += PART_OF_WINOGRAD.get(call.program.name, "")
        if name in self._nodes:
            name = f"{name} ({position})"
        self._nodes.add(name)
        return Node(
            name=name,
            op="+".join((workload.kind, *workload.epilogue)),
            inputs=tuple(map(self.tensor, call.inputs)),
            outputs=tuple(map(self.tensor, call.outputs)),
            workload=workload.key,
            source=self._whole(call.origin.nodes) or tuple(dict.fromkeys(sources)),
            flops=workload.flops,
        )

    def _whole(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """With those that an earlier pass left nothing of but a table."""
        absorbed = self._imports.absorbed
        return tuple(dict.fromkeys(n for node in nodes for n in (*absorbed.get(node, ()), node)))
