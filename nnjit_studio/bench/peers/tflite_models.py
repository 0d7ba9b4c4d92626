"""A product as a .tflite file for LiteRT.js, as a converter would write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.ir.tensor_ir import Buffer
from nnjit_studio.compiler.spelling import WorkloadSpec
from nnjit_studio.errors import UserError

SCHEMA_VERSION = 3
_IDENTIFIER = b"TFL3"
_ALIGNMENT = 16


def write_tflite(
    path: Path,
    spec: WorkloadSpec,
    inputs: Sequence[tuple[Buffer, NDArray[np.float32]]],
    output: Buffer,
) -> None:
    """FULLY_CONNECTED for constant weights, else BATCH_MATMUL, then the epilogue's operators.

    Bias, and ReLU after it, are part of FULLY_CONNECTED, as there. What the page gives are the
    inputs that are not constant, in their order.

    Raises
    ------
    UserError
        When the package ``tflite`` is not installed.
    """
    graph = Graph()
    (a, b), rest = inputs[:2], list(inputs[2:])
    words, shape = list(spec.epilogue), output.shape
    buffer, weights = b
    left = graph.input(*a)
    if buffer.constant and weights.ndim == 2:
        bias = graph.input(*rest.pop(0)) if words[:1] == ["bias"] else -1
        words = words[1:] if bias >= 0 else words
        clipped = words[:1] == ["relu"]
        words = words[1:] if clipped else words
        transposed = graph.constant(np.ascontiguousarray(weights.T))
        now = graph.operator("FULLY_CONNECTED", [left, transposed, bias], shape, relu=clipped)
    else:
        now = graph.operator("BATCH_MATMUL", [left, graph.input(*b)], shape)
    for word in words:
        if word in ("bias", "residual"):
            now = graph.operator("ADD", [now, graph.input(*rest.pop(0))], shape)
        else:
            now = graph.operator(word.upper(), [now], shape)
    path.write_bytes(graph.file(now))


_OPTIONS = {
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "ADD": "AddOptions",
    "GELU": "GeluOptions",
    "RELU": "",
    "QUANTIZE": "QuantizeOptions",
    "DEQUANTIZE": "DequantizeOptions",
}
"""Each operator's table of options in the schema."""


@dataclass(frozen=True)
class Steps:
    """How whole numbers stand for reals, ``scale * (number - zero)``: all, or along an axis."""

    scales: NDArray[np.float32]
    zero: int = 0
    axis: int = 0


@dataclass(frozen=True)
class _Tensor:
    shape: tuple[int, ...]
    data: bytes
    dtype: str
    steps: Steps | None


@dataclass
class Graph:
    """Tensors and operators in the order of their numbers."""

    tensors: list[_Tensor] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    operators: list[tuple[str, list[int], int, bool]] = field(default_factory=list)

    def tensor(
        self,
        shape: Sequence[int],
        data: bytes = b"",
        dtype: str = "float32",
        steps: Steps | None = None,
    ) -> int:
        self.tensors.append(_Tensor(tuple(shape), data, dtype, steps))
        return len(self.tensors) - 1

    def constant(self, values: NDArray[Any], steps: Steps | None = None) -> int:
        return self.tensor(values.shape, values.tobytes(), values.dtype.name, steps)

    def input(self, buffer: Buffer, values: NDArray[np.float32]) -> int:
        if buffer.constant:
            return self.constant(values)
        self.given.append(self.tensor(buffer.shape))
        return self.given[-1]

    def operator(
        self,
        name: str,
        inputs: list[int],
        shape: Sequence[int],
        relu: bool = False,
        steps: Steps | None = None,
    ) -> int:
        """The number of its result, of 8 bits where it has ``steps``."""
        output = self.tensor(shape, dtype="int8" if steps else "float32", steps=steps)
        self.operators.append((name, inputs, output, relu))
        return output

    def file(self, output: int) -> bytes:
        """The whole .tflite file."""
        schema = _schema()
        b = flatbuffers.Builder(sum(len(t.data) for t in self.tensors) + 4096)
        # buffer 0 is empty, as the schema demands; tensor i has buffer i + 1
        contents = [b"", *(t.data for t in self.tensors)]
        data = [{"Data": _bytes(b, c)} if c else {} for c in contents]
        buffers = [_table(b, schema, "Buffer", **fields) for fields in data]
        tensors = [
            _table(
                b,
                schema,
                "Tensor",
                Shape=b.CreateNumpyVector(np.array(tensor.shape, np.int32)),
                Type=getattr(schema.TensorType, tensor.dtype.upper()),
                Buffer=number + 1,
                Name=b.CreateString(f"t{number}"),
                **_steps(b, schema, tensor.steps),
            )
            for number, tensor in enumerate(self.tensors)
        ]
        names = sorted({name for name, *_ in self.operators})
        codes = [_code(b, schema, name) for name in names]
        operators = [self._operator(b, schema, names, *given) for given in self.operators]
        subgraph = _table(
            b,
            schema,
            "SubGraph",
            Tensors=_offsets(b, tensors),
            Inputs=_numbers(b, self.given),
            Outputs=_numbers(b, [output]),
            Operators=_offsets(b, operators),
        )
        model = _table(
            b,
            schema,
            "Model",
            Version=SCHEMA_VERSION,
            OperatorCodes=_offsets(b, codes),
            Subgraphs=_offsets(b, [subgraph]),
            Buffers=_offsets(b, buffers),
        )
        b.Finish(model, _IDENTIFIER)
        return bytes(b.Output())

    def _operator(
        self,
        b: Any,
        schema: Any,
        names: list[str],
        name: str,
        inputs: list[int],
        output: int,
        relu: bool,
    ) -> int:
        fields: dict[str, Any] = {}
        if options := _OPTIONS[name]:
            act = {"FusedActivationFunction": schema.ActivationFunctionType.RELU} if relu else {}
            keep = {"KeepNumDims": True} if name == "FULLY_CONNECTED" else {}
            fields["BuiltinOptionsType"] = getattr(schema.BuiltinOptions, options)
            fields["BuiltinOptions"] = _table(b, schema, options, **act, **keep)
        return _table(
            b,
            schema,
            "Operator",
            OpcodeIndex=names.index(name),
            Inputs=_numbers(b, inputs),
            Outputs=_numbers(b, [output]),
            **fields,
        )


def _steps(b: Any, schema: Any, steps: Steps | None) -> dict[str, int]:
    if steps is None:
        return {}
    zeros = np.full(steps.scales.size, steps.zero, np.int64)
    table = _table(
        b,
        schema,
        "QuantizationParameters",
        Scale=b.CreateNumpyVector(steps.scales.astype(np.float32)),
        ZeroPoint=b.CreateNumpyVector(zeros),
        QuantizedDimension=steps.axis,
    )
    return {"Quantization": table}


def _schema() -> Any:
    """The schema's tables, by their names."""
    try:
        import tflite
    except ImportError as error:
        raise UserError(
            "The package tflite, which writes LiteRT's files, is not installed.",
            "Run `pip install 'nnjit-studio[bench]'`, or leave litert out of --peers.",
        ) from error
    return tflite


def _code(b: Any, schema: Any, name: str) -> int:
    number = getattr(schema.BuiltinOperator, name)
    # readers that know numbers of one byte only look at the deprecated field
    return _table(
        b,
        schema,
        "OperatorCode",
        DeprecatedBuiltinCode=min(number, 127),
        BuiltinCode=number,
        Version=1,
    )


def _table(b: Any, schema: Any, table: str, **fields: Any) -> int:
    """One table; its fields' vectors and strings are written before."""
    getattr(schema, f"{table}Start")(b)
    for name, value in fields.items():
        getattr(schema, f"{table}Add{name}")(b, value)
    return int(getattr(schema, f"{table}End")(b))


def _bytes(b: Any, data: bytes) -> int:
    """A vector of bytes at an address that vector instructions like."""
    b.StartVector(1, len(data), _ALIGNMENT)
    b.head -= len(data)
    b.Bytes[b.head : b.head + len(data)] = data
    return int(b.EndVector())


def _numbers(b: Any, numbers: Sequence[int]) -> int:
    return int(b.CreateNumpyVector(np.array(numbers, np.int32)))


def _offsets(b: Any, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())
