"""Convolutional networks: imported, and their kernels, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_harness import run_kernel
from onnx import NodeProto, helper
from onnx_models import save
from test_importer import check_against_onnxruntime

from nnjit_studio.compiler.importer import BuiltModel
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.records import DeviceProfile
from nnjit_studio.space.lite_space import build_lite_space


class Net:
    """A chain of layers with seeded weights."""

    def __init__(self, channels: int) -> None:
        self.rng = np.random.default_rng(11)
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, np.ndarray] = {
            "low": np.array(0, np.float32),
            "high": np.array(6, np.float32),
        }
        self.channels = {"x": channels}

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        self.channels[name] = self.channels[inputs[0]]
        return name

    def conv(
        self, x: str, out: int, kernel: int, stride: int = 1, groups: int = 1, dilation: int = 1
    ) -> str:
        shape = (out, self.channels[x] // groups, kernel, kernel)
        number = len(self.weights)
        scale = np.sqrt(np.prod(shape[1:]))
        self.weights[f"w{number}"] = (self.rng.standard_normal(shape) / scale).astype(np.float32)
        self.weights[f"b{number}"] = self.rng.standard_normal(out).astype(np.float32)
        name = self.add(
            "Conv",
            x,
            f"w{number}",
            f"b{number}",
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[kernel // 2 * dilation] * 4,
            dilations=[dilation] * 2,
            group=groups,
        )
        self.channels[name] = out
        return name

    def relu6(self, x: str) -> str:
        return self.add("Clip", x, "low", "high")


def check(net: Net, path: Path, size: tuple[int, int], output: str, shape: list[int]) -> BuiltModel:
    net.nodes[-1].output[0] = "y"
    inputs: dict[str, list[int | str]] = {"x": [1, net.channels["x"], *size]}
    save(path, net.nodes, inputs, {"y": shape}, net.weights)
    x = net.rng.standard_normal(inputs["x"]).astype(np.float32)
    built = check_against_onnxruntime(path, {"x": x})
    for workload in built.workloads:
        program = built.programs[workload.key]
        arrays = {
            b.name: net.rng.standard_normal(b.shape).astype(np.float32)
            for b in program.buffers
            if b.role == "input"
        }
        wanted = evaluate_with_bound(program, arrays)
        packable = workload.key in built.packable
        assert workload.tunable
        space = build_lite_space(workload, DeviceProfile("t", "t"), packable)
        for candidate in (None, space.entries[0].candidate, space.entries[-1].candidate):
            made = compile_program(program, candidate, "simd128")
            got = run_kernel(program, made.data, made.parallel_extent, arrays, made.panels)
            for name, (value, bound) in wanted.items():
                assert (np.abs(got[name] - value) <= bound + 1e-30).all(), workload.name
    return built


@pytest.mark.parametrize("size", [(14, 14), (9, 13)])
def test_resnet_basic_block(tmp_path: Path, size: tuple[int, int]) -> None:
    net = Net(6)
    first = net.add("Relu", net.conv("x", 8, 3, stride=2))
    second = net.conv(first, 8, 3)
    shortcut = net.conv("x", 8, 1, stride=2)
    output = net.add("Relu", net.add("Add", second, shortcut))
    shape = [1, 8, -(-size[0] // 2), -(-size[1] // 2)]
    built = check(net, tmp_path / "block.onnx", size, output, shape)
    names = sorted(w.name.split(":")[0] for w in built.workloads)
    assert names == ["conv2d"] * 3
    assert any(w.epilogue == ("bias", "residual", "relu") for w in built.workloads)


@pytest.mark.parametrize("stride", [1, 2])
def test_mobilenet_inverted_residual(tmp_path: Path, stride: int) -> None:
    net = Net(4)
    wide = net.relu6(net.conv("x", 12, 1))
    deep = net.relu6(net.conv(wide, 12, 3, stride=stride, groups=12))
    output = net.conv(deep, 4, 1)
    if stride == 1:
        output = net.add("Add", output, "x")
    side = -(-11 // stride)
    built = check(net, tmp_path / "inverted.onnx", (11, 11), output, [1, 4, side, side])
    kinds = [w.kind for w in built.workloads]
    assert sorted(kinds) == ["conv2d", "matmul", "matmul"]


def test_dilated_and_grouped(tmp_path: Path) -> None:
    net = Net(6)
    x = net.add("HardSwish", net.conv("x", 9, 5, groups=3))
    output = net.conv(x, 6, 3, dilation=2)
    built = check(net, tmp_path / "mixed.onnx", (10, 9), output, [1, 6, 10, 9])
    assert [w.kind for w in built.workloads] == ["conv2d", "conv2d"]


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (2, 3), (3, 2)])
def test_a_sequence_is_cut_into_blocks_of_pixels(
    tmp_path: Path, stride: int, dilation: int
) -> None:
    """Each block stages what it reads, zeros in front and behind among it."""
    net = Net(5)
    net.weights["w"] = net.rng.standard_normal((6, 5, 4)).astype(np.float32)
    output = net.add("Conv", "x", "w", strides=[stride], dilations=[dilation], pads=[3, 2])
    length = (1000 + 5 - 3 * dilation - 1) // stride + 1
    built = check(net, tmp_path / "row.onnx", (1000,), output, [1, 6, length])
    (program,) = built.programs.values()
    assert compile_program(program, None, "simd128").parallel_extent == length // 128
