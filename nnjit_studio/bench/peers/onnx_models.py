"""ONNX models of workloads for the peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from nnjit_studio.compiler.ir.tensor_ir import Buffer
from nnjit_studio.compiler.spelling import WorkloadSpec
from nnjit_studio.samples.small import port, save_model
from nnjit_studio.space.wasm.conv2d import CONV2D


def write_onnx(
    path: Path,
    spec: WorkloadSpec,
    inputs: Sequence[tuple[Buffer, NDArray[np.float32]]],
    output: Buffer,
) -> None:
    """MatMul or Conv and the epilogue's operators; constant inputs become initialisers."""
    names = iter(buffer.name for buffer, _ in inputs)
    operands = [next(names), next(names)]
    nodes = [
        _conv(spec, operands)
        if spec.kind == CONV2D
        else helper.make_node("MatMul", operands, ["t0"])
    ]
    for i, word in enumerate(spec.epilogue):
        before, after = f"t{i}", f"t{i + 1}"
        if word in ("bias", "residual"):
            nodes.append(helper.make_node("Add", [before, next(names)], [after]))
        else:
            nodes.append(
                helper.make_node({"relu": "Relu", "gelu": "Gelu"}[word], [before], [after])
            )
    nodes[-1].output[0] = output.name
    constants = [numpy_helper.from_array(x, b.name) for b, x in inputs if b.constant]
    given = [port(b.name, b.shape) for b, _ in inputs if not b.constant]
    save_model(path, nodes, given, [port(output.name, output.shape)], constants)


def _conv(spec: WorkloadSpec, operands: Sequence[str]) -> onnx.NodeProto:
    *_, height, width, stride, pad, dilation, groups = spec.dims
    return helper.make_node(
        "Conv",
        operands,
        ["t0"],
        kernel_shape=[height, width],
        strides=[stride] * 2,
        pads=[pad] * 4,
        dilations=[dilation] * 2,
        group=groups,
    )
