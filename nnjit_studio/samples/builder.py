"""ONNX graphs in the op pattern of torch.onnx's exporter, with seeded weights.

The patterns were read off files that torch 2.15 (``dynamo=True``, opset 18) writes for
transformers 5.23 and torchvision 0.29: a linear layer is MatMul + Add with its weight
transposed ahead, scaled dot-product attention scales Q and K by the root of its factor,
and a softmax after a mask has its NaN replaced by 0.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPSET = 18
IR_VERSION = 10
LOWEST = float(np.finfo(np.float32).min)

Array = NDArray[Any]


class Builder:
    """Collects nodes, weights and ports; methods return the name of their output.

    A seeded weight's values depend on its name and shape alone, so that two graphs of one
    network (prefill and decode) have the same weights.

    Parameters
    ----------
    paths
        Whether nodes are named by paths, as torch's older exporter does: ``/layer/MatMul``.
    """

    def __init__(self, paths: bool = False) -> None:
        self.paths = paths
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.scope = ""
        self._taken: dict[str, int] = {}

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Nodes and weights inside are named below ``name``."""
        inner = f"{self.scope}/{name}" if self.paths else f"{self.scope}{name}."
        outer, self.scope = self.scope, inner
        yield
        self.scope = outer

    def input(self, name: str, *shape: int | str, integers: bool = False) -> str:
        from onnx import TensorProto, helper

        dtype = TensorProto.INT64 if integers else TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, name: str, value: str, *shape: int | str) -> None:
        """Make ``value``, so far the output of a node, the graph's output ``name``."""
        from onnx import TensorProto, helper

        for node in self.nodes:
            for names in (node.input, node.output):
                for i, used in enumerate(names):
                    if used == value:
                        names[i] = name
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """A node with several outputs."""
        from onnx import helper

        name = self._path(kind) if self.paths else f"{self.scope}{kind}_{len(self.nodes)}"
        mark = "_output_" if self.paths else ":"
        outputs = [f"{name}{mark}{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=name, **attributes))
        return outputs

    def _path(self, kind: str) -> str:
        path = f"{self.scope}/{kind}"
        taken = self._taken[path] = self._taken.get(path, -1) + 1
        return f"{path}_{taken}" if taken else path

    def constant(self, value: Any, dtype: Any = np.float32, name: str = "") -> str:
        """A constant, kept once under its value or its name."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(value, dtype).reshape(np.shape(value))
        name = name or f"{np.dtype(dtype).name}_{array.tolist()}".replace(" ", "")
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(array, name)
        return name

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def weight(self, name: str, *shape: int, scale: float, mean: float = 0.0) -> str:
        """Normal values of the given scale; a name of the outermost scope starts with a slash."""
        name = name[1:] if name.startswith("/") else self.scope + name
        if name not in self.initializers:
            rng = np.random.default_rng([zlib.crc32(name.encode()), *shape])
            values = rng.standard_normal(shape, np.float32)
            values *= np.float32(scale)
            values += np.float32(mean)
            return self.constant(values, np.float32, name)
        return name

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.ints(*shape), allowzero=1)

    def linear(self, name: str, x: str, k: int, n: int, bias: bool = True) -> str:
        """``x @ W + b``: the exporter folds the transpose of torch's weight."""
        product = self.op("MatMul", x, self.weight(f"{name}.weight", k, n, scale=k**-0.5))
        if not bias:
            return product
        return self.op("Add", product, self.weight(f"{name}.bias", n, scale=0.1))

    def gemm(self, name: str, x: str, k: int, n: int) -> str:
        """A linear layer on a 2-d tensor."""
        weight = self.weight(f"{name}.weight", n, k, scale=k**-0.5)
        return self.op("Gemm", x, weight, self.weight(f"{name}.bias", n, scale=0.1), transB=1)

    def norm(self, name: str, x: str, n: int) -> str:
        scale = self.weight(f"{name}.weight", n, scale=0.1, mean=1.0)
        shift = self.weight(f"{name}.bias", n, scale=0.1)
        return self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)

    def embedding(self, name: str, ids: str, rows: int, n: int) -> str:
        return self.op("Gather", self.weight(f"{name}.weight", rows, n, scale=0.1), ids, axis=0)

    def heads(self, x: str, sequence: int, depth: int) -> str:
        """``[1, sequence, heads * depth]`` to ``[1, heads, sequence, depth]``."""
        return self.op("Transpose", self.reshape(x, 1, sequence, -1, depth), perm=[0, 2, 1, 3])

    def joined(self, x: str, sequence: int, width: int) -> str:
        """The reverse of :meth:`heads`."""
        return self.reshape(self.op("Transpose", x, perm=[0, 2, 1, 3]), 1, sequence, width)

    def attention(
        self, q: str, k: str, v: str, heads: int, keys: int, depth: int, mask: str = "",
        scaled: bool = True,
    ) -> str:  # fmt: skip
        """Scaled dot-product attention of ``[1, heads, sequence, depth]`` tensors.

        ``scaled`` is False where Q was scaled before, as Whisper does it.
        """
        flat = self.op("Reshape", k, self.ints(-1, keys, depth), allowzero=0)
        flat = self.op("Transpose", flat, perm=[0, 2, 1])
        kt = self.op("Reshape", flat, self.ints(1, heads, depth, keys), allowzero=0)
        if scaled:
            factor = self.constant(depth**-0.25)
            q, kt = self.op("Mul", q, factor), self.op("Mul", kt, factor)
        scores = self.op("MatMul", q, kt)
        if mask:
            scores = self.op("Add", scores, mask)
        weights = self.op("Softmax", scores, axis=-1)
        if mask:
            nan = self.op("IsNaN", weights)
            weights = self.op("Where", nan, self.constant(0.0), weights)
        return self.op("MatMul", weights, v)

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2.0))))
        gate = self.op("Mul", self.constant(0.5), self.op("Add", erf, self.constant(1.0)))
        return self.op("Mul", x, gate)

    def gelu_tanh(self, x: str) -> str:
        half = self.op("Mul", x, self.constant(0.5))
        cube = self.op("Mul", self.op("Pow", x, self.constant(3.0)), self.constant(0.044715))
        inner = self.op("Mul", self.op("Add", x, cube), self.constant(math.sqrt(2 / math.pi)))
        return self.op("Mul", half, self.op("Add", self.op("Tanh", inner), self.constant(1.0)))

    def additive(self, allowed: str) -> str:
        """A boolean mask as something to add to scores."""
        return self.op("Where", allowed, self.constant(0.0), self.constant(LOWEST))

    def padding_mask(self, mask: str, queries: int, keys: int) -> str:
        """Where the int64 ``mask [1, keys]`` allows a key, as ``[1, 1, queries, keys]``."""
        from onnx import TensorProto

        index = np.stack([np.zeros(keys, np.int64), np.arange(keys)], -1)
        where = self.constant(index[None, None, None], np.int64, f"mask_index_{keys}")
        known = self.op("GatherND", self.op("Cast", mask, to=TensorProto.BOOL), where)
        every = self.constant(np.ones((1, 1, queries, 1)), np.bool_, f"every_{queries}")
        return self.op("And", every, known)

    def save(self, path: Path, name: str, opset: int = OPSET, ir_version: int = IR_VERSION) -> Path:
        """Write the file.

        Raises
        ------
        onnx.checker.ValidationError
            When the graph is not valid ONNX: a bug of the zoo.
        """
        import onnx
        from onnx import helper

        weights = list(self.initializers.values())
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, weights)
        model = helper.make_model(
            graph,
            producer_name="nnjit-studio",
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=ir_version,
        )
        onnx.save(model, str(path))
        onnx.checker.check_model(str(path))
        return path


def causal(queries: int, keys: int) -> Array:
    """Whether each of the last ``queries`` positions sees a key: ``[1, 1, queries, keys]``."""
    return np.tri(queries, keys, keys - queries, dtype=np.bool_)[None, None]
