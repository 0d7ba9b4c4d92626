"""Quantisation by ONNX Runtime's tools: 8 bits dynamic and static, 4 bits; and rounding to f16."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.check import opset_of

BLOCK = 32
"""Elements of a weight with a common scale, in 4 bits."""
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Gather", "LSTM", "GRU")
"""Operators whose weights an import may round."""
_LOUD = (
    "root",
    "onnx_ir",
    "onnxruntime.quantization",
    "onnxruntime.quantization.matmul_nbits_quantizer",
)
"""Loggers of the tools: a line for each node, and advice to call another tool first."""
CHANNELS_OPSET = 13
"""Version of ONNX from which DequantizeLinear takes a scale for each channel."""
HALF_SCALE = 2.0**10
"""As the importer's: weights are stored so many times as large."""


@contextlib.contextmanager
def _quiet_tools() -> Iterator[None]:
    """Errors alone are logged; what others log afterwards is as before."""
    loggers = [logging.getLogger(name) for name in _LOUD]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@_quiet_tools()
def dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    """Weights in i8 by channel; activations quantised as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    return _saved(
        lambda out: quantize_dynamic(
            _prepared(model), out, per_channel=True, weight_type=QuantType.QInt8
        )
    )


@_quiet_tools()
def static(model: onnx.ModelProto, feeds: Mapping[str, NDArray[Any]]) -> onnx.ModelProto:
    """Weights in i8, activations in u8, their ranges measured on these inputs.

    Weights have a scale for each channel where the file's version has such scales.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    names = {port.name for port in model.graph.input}
    given = [{name: array for name, array in feeds.items() if name in names}]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, NDArray[Any]] | None:
            return given.pop() if given else None

    return _saved(
        lambda out: quantize_static(
            _prepared(model),
            out,
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=opset_of(model) >= CHANNELS_OPSET,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    )


@_quiet_tools()
def four_bit(model: onnx.ModelProto) -> onnx.ModelProto:
    """Weights of products in 4 bits, symmetric, a scale for each 32."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    tool = MatMulNBitsQuantizer(model, block_size=BLOCK, is_symmetric=True, accuracy_level=4)
    tool.process()
    made: onnx.ModelProto = tool.model.model
    return made


def halved(model: onnx.ModelProto) -> tuple[onnx.ModelProto, int]:
    """Weights rounded to f16 and held in float32, and how many: the numbers of an f16 import."""
    read = {i for n in model.graph.node if n.op_type in WEIGHTED for i in n.input[:2]}
    rounded = 0
    for tensor in model.graph.initializer:
        if tensor.name in read and tensor.data_type == onnx.TensorProto.FLOAT:
            values = array_of(tensor) * HALF_SCALE
            half = (values.astype(np.float16).astype(np.float32) / HALF_SCALE).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(half, tensor.name))
            rounded += 1
    return model, rounded


def _prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the shapes of its tensors, as the tools want it."""
    return onnx.shape_inference.infer_shapes(model)


def _saved(write: Any) -> onnx.ModelProto:
    """What a tool writes into a file, read again."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "made.onnx"
        write(out)
        return onnx.load(str(out))
