"""The output of the decomposition rules: new nodes, constants and their types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.errors import UnsupportedOpError

INTEGERS = {
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip
Types = dict[str, tuple[int, tuple[int, ...] | None]]
"""ONNX dtype and, where it is known, shape of each tensor by name."""


def read_counts(graph: onnx.GraphProto) -> Counter[str]:
    """How many read each tensor, the graph's outputs among them."""
    read = Counter(name for node in graph.node for name in node.input)
    read.update(port.name for port in graph.output)
    return read


@dataclass
class Rewriter:
    """Interface of the rules: questions about the node, and places for new nodes and constants.

    ``whole`` names the float32 tensors that hold what int32 ones hold, by their names; ``scaled``
    has those that are one times a factor, with it;
    ``dequantised`` has the DequantizeLinear nodes by what they compute, ``softmaxes`` those in
    front of a Softmax, by what it computes for a single reader; ``turned`` has what a transposed
    table of bytes is made of; ``read`` counts the readers of each
    tensor, the graph's outputs among them; ``pairs`` are the bytes between two nodes of a pair, of
    whose result there is one reader; a recurrent layer of ``loops_from`` steps or more is a loop;
    ``open_sizes``: nothing may follow from the sizes of this import, which others will have too;
    ``mark`` tells names of two passes apart.
    """

    opset: int
    types: Types
    constants: Mapping[str, NDArray[Any]]
    node: onnx.NodeProto = field(default_factory=onnx.NodeProto)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    whole: dict[str, str] = field(default_factory=dict)
    scaled: dict[str, tuple[str, NDArray[Any]]] = field(default_factory=dict)
    dequantised: dict[str, onnx.NodeProto] = field(default_factory=dict)
    softmaxes: Mapping[str, onnx.NodeProto] = field(default_factory=dict)
    turned: dict[str, str] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)
    pairs: frozenset[str] = frozenset()
    count: int = 0
    loops_from: int = 1
    open_sizes: bool = False
    mark: str = "//"

    def attribute(self, name: str, default: Any) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                return helper.get_attribute_value(attribute)
        return default

    def dtype(self, name: str) -> int:
        return int(self.types.get(name, (TensorProto.FLOAT, None))[0])

    def shape(self, name: str) -> tuple[int, ...]:
        shape = self.types.get(name, (0, None))[1]
        if shape is None:
            raise self.refuse(
                "an input of known shape",
                "Fold what its shape is computed from: python -m onnxsim MODEL OUT simplifies the "
                "file, with all sizes fixed.",
            )
        return shape

    def constant(self, position: int, what: str) -> NDArray[Any]:
        name = self.node.input[position]
        if name not in self.constants:
            raise self.refuse(f"a constant {what}")
        return self.constants[name]

    def refuse(
        self,
        what: str,
        hint: str = "Replace it in the exported model; docs/operators.md lists what runs.",
    ) -> UnsupportedOpError:
        name = self.node.name or self.node.output[0]
        return UnsupportedOpError(
            f"The operator {self.node.op_type} of node {name!r} needs {what}.", hint
        )

    def weight(self, array: Any, dtype: Any = None) -> str:
        self.count += 1
        name = f"{self.node.output[0] or self.node.name}{self.mark}{self.count}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def op(self, op_type: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        self.count += 1
        out = out or f"{self.node.output[0] or self.node.name}{self.mark}{self.count}"
        name = f"{self.node.name}{self.mark}{self.count}" if self.node.name else ""
        self.nodes.append(helper.make_node(op_type, list(inputs), [out], name, **attributes))
        return out

    def along(self, op_type: str, x: str, axes: list[int], out: str = "", **attributes: Any) -> str:
        """An operator whose axes became an input: of ReduceSum with opset 13, as of what is no
        reduction, of other reductions with 18."""
        late = op_type.startswith("Reduce") and op_type != "ReduceSum"
        if self.opset < (18 if late else 13):
            return self.op(op_type, x, out=out, axes=axes, **attributes)
        return self.op(op_type, x, self.weight(axes, np.int64), out=out, **attributes)

    def split(self, x: str, sizes: list[int], axis: int) -> list[str]:
        """Parts of a tensor along an axis."""
        outs = [
            f"{self.node.output[0] or self.node.name}{self.mark}{self.count + i + 1}"
            for i in range(len(sizes))
        ]
        self.count += len(sizes)
        held = {"split": sizes} if self.opset < 13 else {}
        names = [x] if held else [x, self.weight(sizes, np.int64)]
        self.nodes.append(helper.make_node("Split", names, outs, axis=axis, **held))
        return outs
