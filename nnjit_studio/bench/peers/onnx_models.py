"""The same workload as an ONNX model, for ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.ir.tensor_ir import Buffer
from nnjit_studio.compiler.spelling import WorkloadSpec
from nnjit_studio.space.wasm.conv2d import CONV2D

OPSET, IR_VERSION = 20, 10


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
    graph = helper.make_graph(
        nodes,
        "workload",
        [_info(buffer) for buffer, _ in inputs if not buffer.constant],
        [_info(output)],
        [numpy_helper.from_array(data, buffer.name) for buffer, data in inputs if buffer.constant],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


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


def _info(buffer: Buffer) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(buffer.name, TensorProto.FLOAT, buffer.shape)
