"""Convolutions of bytes are exact for any signs, zero points and borders, in both tiers."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from kernel_harness import run_kernel
from onnx import TensorProto, helper, numpy_helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.ir.numbers_in_front import numbers_in_front
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.schedule.default import schedule_default
from nnjit_studio.compiler.templates import match
from nnjit_studio.records import TIERS, DeviceProfile
from nnjit_studio.records.quantised import DEPTHWISE_INT8, MATMUL_INT8
from nnjit_studio.space.lite_space import build_lite_space

Sizes = tuple[int, ...]
DEVICE = DeviceProfile("test", "test")


def whole_bytes(rng: np.random.Generator, kind: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max + 1, shape).astype(kind)


def model_of(
    folder: Path, nodes: list[Any], feeds: dict[str, np.ndarray], rank: int, dtype: int,
    weights: dict[str, Any],
) -> Path:  # fmt: skip
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    output = helper.make_tensor_value_info("y", dtype, [f"d{i}" for i in range(rank)])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", inputs, [output], tensors)
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


def expected_sums(
    x: np.ndarray, w: np.ndarray, x_zero: int, w_zero: np.ndarray, attributes: dict[str, Any]
) -> np.ndarray:
    """By ONNX's Conv on float64 numbers, which hold every sum."""
    wide = w.astype(np.float64) - w_zero.reshape(-1, *[1] * (w.ndim - 1))
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    values = [("x", x.astype(np.float64) - x_zero), ("w", wide)]
    inputs = [helper.make_tensor_value_info(n, TensorProto.DOUBLE, a.shape) for n, a in values]
    output = helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (total,) = onnx.reference.ReferenceEvaluator(model).run(None, dict(values))
    return np.rint(total).astype(np.int64).astype(np.int32)


def random_case(rng: np.random.Generator) -> tuple[Sizes, Sizes, dict[str, Any]]:
    """Shapes of image and weights, and attributes."""
    rank = int(rng.choice([1, 2, 2, 2]))
    kernel = [int(k) for k in rng.integers(1, 6 if rank == 1 else 4, rank)]
    strides, dilations = ([int(v) for v in rng.integers(1, 3, rank)] for _ in range(2))
    depthwise = bool(rng.integers(2))
    channels = int(rng.choice([8, 16, 24, 5])) if depthwise else int(rng.integers(1, 9))
    outputs = channels if depthwise else int(rng.integers(1, 20))
    image = [
        (k - 1) * d + 1 + int(rng.integers(0, 7)) for k, d in zip(kernel, dilations, strict=True)
    ]
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations}
    kind = rng.integers(3)
    if kind == 0:
        attributes["pads"] = [int(p) for p in rng.integers(0, 3, 2 * rank)]
    elif kind == 1 and max(dilations) == 1:
        attributes["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))
    if depthwise:
        attributes["group"] = channels
    x = (int(rng.integers(1, 3)), channels, *image)
    return x, (outputs, 1 if depthwise else channels, *kernel), attributes


@pytest.mark.parametrize("seed", range(24))
def test_integers_are_exact(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, kernel, attributes = random_case(rng)
    x, w = (whole_bytes(rng, rng.choice([np.int8, np.uint8]), *sizes) for sizes in (shape, kernel))
    weights: dict[str, Any] = {"w": w}
    names, x_zero, w_zero = ["x", "w", "", ""], 0, np.zeros(1)
    if rng.integers(2):
        weights["xz"], names[2] = whole_bytes(rng, x.dtype), "xz"
        x_zero = int(weights["xz"])
    if rng.integers(2):
        size = (kernel[0],) if rng.integers(2) else ()
        weights["wz"], names[3] = whole_bytes(rng, w.dtype, *size), "wz"
        w_zero = np.broadcast_to(weights["wz"].astype(np.float64), (kernel[0],))
    while not names[-1]:
        names.pop()
    node = helper.make_node("ConvInteger", names, ["y"], **attributes)
    path = model_of(tmp_path, [node], {"x": x}, x.ndim, TensorProto.INT32, weights)
    built = import_model(path, tmp_path / "w.bin")
    expected = expected_sums(x, w, x_zero, w_zero, attributes)
    for tier in TIERS:
        got = run_by_kernels(built, tmp_path / "w.bin", {"x": x}, tier)["y"]
        np.testing.assert_array_equal(got, expected, str((seed, tier, attributes)))


def depthwise(folder: Path, kind: Any, *, stride: int = 1, taps: int = 3) -> BuiltModel:
    rng = np.random.default_rng(stride)
    x, w = whole_bytes(rng, kind, 2, 16, 9, 11), whole_bytes(rng, np.int8, 16, 1, taps, taps)
    node = helper.make_node(
        "ConvInteger", ["x", "w", "z"], ["y"], group=16, strides=[stride] * 2,
        pads=[taps // 2] * 4,
    )  # fmt: skip
    path = model_of(folder, [node], {"x": x}, 4, TensorProto.INT32, {"w": w, "z": kind(7)})
    return import_model(path, folder / "w.bin")


@pytest.mark.parametrize(("kind", "stride", "taps"), [(np.uint8, 1, 3), (np.int8, 2, 5)])
def test_every_candidate_is_exact(tmp_path: Path, kind: Any, stride: int, taps: int) -> None:
    built = depthwise(tmp_path, kind, stride=stride, taps=taps)
    (name,) = [w.key for w in built.workloads if w.kind == DEPTHWISE_INT8]
    (workload,) = [w for w in built.workloads if w.key == name]
    program = built.programs[name]
    found = match(program)
    assert found is not None
    assert workload.tunable
    candidates = build_lite_space(workload, DEVICE, packable=False).wasm_candidates
    assert len(candidates) >= 6
    rng = np.random.default_rng(0)
    arrays = {
        b.name: whole_bytes(rng, kind, *b.shape)
        if b.dtype in ("i8", "u8")
        else rng.integers(-255, 256, b.shape).astype(np.int32)
        for b in program.buffers
        if b.role == "input"
    }
    plain = compile_program(program, None, "simd128", scheduled=schedule_default(program))
    expected = run_kernel(program, plain.data, plain.parallel_extent, arrays)["out0"]
    for tier, candidate in product(TIERS, candidates):
        made = compile_program(program, candidate, tier)
        got = run_kernel(program, made.data, made.parallel_extent, arrays, parts=3)["out0"]
        np.testing.assert_array_equal(got, expected, str(candidate))


def dynamic(folder: Path, rng: np.random.Generator) -> tuple[Path, dict[str, np.ndarray]]:
    """A 1x1 convolution, a depthwise one and a residual, as a quantiser writes them."""
    nodes: list[Any] = []
    weights: dict[str, Any] = {"shape": np.array([1, -1, 1, 1])}

    def conv(x: str, out: str, w: np.ndarray, **attributes: Any) -> str:
        weights.update({f"{out}w": w, f"{out}ws": np.float32(0.01), f"{out}z": np.int8(0)})
        weights[f"{out}b"] = rng.standard_normal(len(w)).astype(np.float32)
        make = helper.make_node
        nodes.extend([
            make("DynamicQuantizeLinear", [x], [f"{out}q", f"{out}s", f"{out}qz"]),
            make(
                "ConvInteger", [f"{out}q", f"{out}w", f"{out}qz", f"{out}z"], [f"{out}i"],
                **attributes,
            ),
            make("Cast", [f"{out}i"], [f"{out}f"], to=TensorProto.FLOAT),
            make("Mul", [f"{out}s", f"{out}ws"], [f"{out}m"]),
            make("Mul", [f"{out}f", f"{out}m"], [f"{out}p"]),
            make("Reshape", [f"{out}b", "shape"], [f"{out}r"]),
            make("Add", [f"{out}p", f"{out}r"], [out]),
        ])  # fmt: skip
        return out

    a = conv("x", "a", whole_bytes(rng, np.int8, 16, 8, 1, 1))
    nodes.append(helper.make_node("Relu", [a], ["ra"]))
    b = conv("ra", "b", whole_bytes(rng, np.int8, 16, 1, 3, 3), group=16, pads=[1] * 4)
    nodes.append(helper.make_node("Add", [b, a], ["c"]))
    nodes.append(helper.make_node("GlobalAveragePool", ["c"], ["g"]))
    nodes.append(helper.make_node("Mul", ["c", "g"], ["y"]))
    feeds = {"x": rng.standard_normal((1, 8, 6, 7)).astype(np.float32)}
    return model_of(folder, nodes, feeds, 4, TensorProto.FLOAT, weights), feeds


def test_layers_between_stay_channels_last(tmp_path: Path) -> None:
    path, feeds = dynamic(tmp_path, np.random.default_rng(0))
    built = import_model(path, tmp_path / "w.bin")
    kinds = [w.kind for w in built.workloads]
    assert {MATMUL_INT8, DEPTHWISE_INT8} <= set(kinds)
    turned = [n.workload for n in built.graph.nodes if "transpose" in n.workload]
    assert len(turned) <= 2  # in front of the first convolution, behind the last layer
    (expected,) = exact_session(path).run(None, feeds)
    for tier in TIERS:
        got = run_by_kernels(built, tmp_path / "w.bin", feeds, tier)["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4 * np.abs(expected).max())


def test_an_image_is_quantised_into_its_border(tmp_path: Path) -> None:
    """In one walk, which threads share, where the bytes lay apart from the border before."""
    path, _ = dynamic(tmp_path, np.random.default_rng(0))
    built = import_model(path, tmp_path / "w.bin")
    (program,) = [p for p in built.programs.values() if p.stages[-1].name == "pad_bytes"]
    assert all(b.shape == () for b in program.buffers if b.role == "workspace")
    assert len(program.stages) - numbers_in_front(program) == 1
    assert schedule_default(program).parallel_extent == 8 * 9  # places of 6x7 and a border of one


def test_pairs_around_a_convolution_are_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    make = helper.make_node
    nodes = [
        make("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        make("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
        make("DequantizeLinear", ["b", "bs"], ["bf"], axis=0),
        make("Conv", ["xf", "wf", "bf"], ["f"], pads=[1] * 4, strides=[2, 1]),
        make("QuantizeLinear", ["f", "ys", "yz"], ["y"]),
    ]
    ws = rng.uniform(0.001, 0.002, 12).astype(np.float32)
    weights = {
        "xs": np.float32(0.02), "xz": np.uint8(113), "w": whole_bytes(rng, np.int8, 12, 6, 3, 3),
        "ws": ws, "wz": np.zeros(12, np.int8), "bs": ws * np.float32(0.02),
        "b": rng.integers(-9999, 9999, 12).astype(np.int32), "ys": np.float32(0.11),
        "yz": np.uint8(120),
    }  # fmt: skip
    x = whole_bytes(rng, np.uint8, 1, 6, 13, 9)
    path = model_of(tmp_path, nodes, {"x": x}, 4, TensorProto.UINT8, weights)
    built = import_model(path, tmp_path / "w.bin")
    assert any(w.kind == MATMUL_INT8 for w in built.workloads)
    (expected,) = exact_session(path).run(None, {"x": x})
    for tier in TIERS:
        got = run_by_kernels(built, tmp_path / "w.bin", {"x": x}, tier)["y"]
        np.testing.assert_array_equal(got, expected)
