"""Write a model in the weights formats that ONNX Runtime's own tools make.

    python benchmarks/models/quantise.py MODEL.onnx FOLDER

MODEL.f16, .dynamic and .uint8 (8-bit weights, MatMulInteger and ConvInteger), .qdq (static, pairs
of QuantizeLinear and DequantizeLinear), .qoperator (QLinearConv, QLinearMatMul), .4bit
(MatMulNBits) and .q4f16 (the same in f16). Calibrated on seeded images: what counts is the
operators, not the accuracy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # else it sends some, and keeps a device id

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers.float16 import convert_float_to_float16


def values(rng: np.random.Generator, port: Any) -> Any:
    """Seeded numbers, tokens or, for masks and kinds of tokens, ones and zeros."""
    if port.type == "tensor(float)":
        return rng.standard_normal(port.shape).astype(np.float32)
    if "mask" in port.name or "type" in port.name:
        return np.full(port.shape, int("mask" in port.name))
    return rng.integers(0, 1000, port.shape)


class Once(CalibrationDataReader):
    def __init__(self, source: Path) -> None:
        rng = np.random.default_rng(0)
        ports = onnxruntime.InferenceSession(source).get_inputs()
        self.feeds = iter([{p.name: values(rng, p) for p in ports}])

    def get_next(self) -> dict[str, Any] | None:
        return next(self.feeds, None)


def static(kind: QuantFormat) -> Callable[[Path, Path], None]:
    return lambda source, out: quantize_static(source, out, Once(source), quant_format=kind)


def half(source: Path, out: Path) -> None:
    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), out)


def four_bits(source: Path, out: Path, model: onnx.ModelProto | None = None) -> None:
    given = model or onnx.load(source)
    quantizer = MatMulNBitsQuantizer(given, block_size=32, is_symmetric=False)
    quantizer.process()
    quantizer.model.save_model_to_file(str(out))


def four_bits_in_half(source: Path, out: Path) -> None:
    four_bits(source, out, convert_float_to_float16(onnx.load(source), keep_io_types=True))


FORMATS: dict[str, Callable[[Path, Path], None]] = {
    "f16": half,
    "dynamic": quantize_dynamic,
    "uint8": lambda source, out: quantize_dynamic(source, out, weight_type=QuantType.QUInt8),
    "qdq": static(QuantFormat.QDQ),
    "qoperator": static(QuantFormat.QOperator),
    "4bit": four_bits,
    "q4f16": four_bits_in_half,
}


def main() -> None:
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in FORMATS.items():
        write(source, folder / f"{source.stem}.{name}.onnx")


if __name__ == "__main__":
    main()
