"""Models with pairs of quantisation and dequantisation, compared with native ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_models
import onnxruntime
import pytest
from onnx import TensorProto, helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.ir.affine import walk
from nnjit_studio.compiler.ir.tensor_ir import Cast, stage_expressions

RNG = np.random.default_rng(5)
TIERS = ("simd128", "relaxed-simd")


class Layers:
    """A graph under construction; every tensor goes through bytes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def held(self, value: np.ndarray | float | int, dtype: type) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def through_bytes(self, x: str, scale: float, zero: int) -> str:
        pair = self.held(scale, np.float32), self.held(zero, np.uint8)
        return self.op("DequantizeLinear", self.op("QuantizeLinear", x, *pair), *pair)

    def weight(self, shape: tuple[int, ...], scale: np.ndarray | float, axis: int = 1) -> str:
        data = RNG.integers(-127, 128, shape)
        zero = np.zeros(np.shape(scale), np.int8)
        names = self.held(data, np.int8), self.held(scale, np.float32), self.held(zero, np.int8)
        return self.op("DequantizeLinear", *names, axis=axis)

    def save(self, path: Path, x: np.ndarray, shape: tuple[int, ...]) -> None:
        self.nodes[-1].output[0] = "y"
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        onnx_models.save(
            path,
            self.nodes,
            [helper.make_tensor_value_info("x", kind, x.shape)],
            {"y": shape},
            self.weights,
        )


def _both(folder: Path, x: np.ndarray, tier: str) -> tuple[BuiltModel, np.ndarray, np.ndarray]:
    path, weights = folder / "m.onnx", folder / "w.bin"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = onnxruntime.InferenceSession(path, options).run(None, {"x": x})
    built = import_model(path, weights)
    return built, run_by_kernels(built, weights, {"x": x}, tier)["y"], expected


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("by_column", [False, True])
def test_layers_share_one_product_of_bytes(tmp_path: Path, by_column: bool, tier: str) -> None:
    model, x = Layers(), RNG.uniform(-1, 1, (5, 24)).astype(np.float32)
    value = model.through_bytes("x", 2 / 255, 127)
    for i, zero in enumerate((120, 140, 133)):
        scale = RNG.uniform(0.003, 0.005, 24) if by_column else 0.004 + 0.0001 * i
        product = model.op("MatMul", value, model.weight((24, 24), scale))
        value = model.through_bytes(product, 0.02 + 0.001 * i, zero)
    model.save(tmp_path / "m.onnx", x, (5, 24))
    built, got, expected = _both(tmp_path, x, tier)
    products = [w for w in built.workloads if w.kind == "matmul_int8"]
    # The last one stores float32, the others the bytes that the next one reads.
    assert sum(w.uses for w in products) == 3 and len(products) <= 2
    step = 0.023
    assert np.abs(got - expected).max() <= 1.01 * step
    assert np.mean(got != expected) < 0.05


def test_between_the_pairs_nothing_is_an_integer(tmp_path: Path) -> None:
    model, x = Layers(), RNG.uniform(-1, 1, (4, 32)).astype(np.float32)
    value = model.through_bytes("x", 2 / 255, 127)
    model.through_bytes(model.op("Mul", value, value), 1 / 255, 3)
    model.save(tmp_path / "m.onnx", x, (4, 32))
    built, got, expected = _both(tmp_path, x, "relaxed-simd")
    np.testing.assert_array_equal(got, expected)
    (program,) = built.programs.values()
    casts = [
        e
        for stage in program.stages
        for expr in stage_expressions(stage)
        for e in walk(expr)
        if isinstance(e, Cast) and e.dtype in ("i8", "u8")
    ]
    assert casts == []


def test_a_gemm_of_pairs(tmp_path: Path) -> None:
    model, x = Layers(), RNG.uniform(-1, 1, (3, 20)).astype(np.float32)
    value = model.through_bytes("x", 2 / 255, 127)
    weight = model.weight((9, 20), RNG.uniform(0.003, 0.005, 9), axis=0)
    bias = model.held(RNG.uniform(-1, 1, 9), np.float32)
    model.op("Gemm", value, weight, bias, transB=1)
    model.save(tmp_path / "m.onnx", x, (3, 9))
    built, got, expected = _both(tmp_path, x, "relaxed-simd")
    assert "matmul_int8" in {w.kind for w in built.workloads}
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_table_stays_in_bytes(tmp_path: Path) -> None:
    model, x = Layers(), RNG.integers(0, 300, (2, 7))
    rows = model.op("Gather", model.weight((300, 64), 0.01), "x")
    model.op("Relu", rows)
    model.save(tmp_path / "m.onnx", x, (2, 7, 64))
    built, got, expected = _both(tmp_path, x, "simd128")
    np.testing.assert_array_equal(got, expected)
    assert built.plan.weights_bytes < 2 * 300 * 64


@pytest.mark.parametrize("k", [64, 300])
def test_two_variable_operands(tmp_path: Path, k: int) -> None:
    names = ["a", "b", "za", "zb"]
    a = RNG.integers(0, 256, (2, 5, k)).astype(np.uint8)
    b = RNG.integers(0, 256, (2, k, 6)).astype(np.uint8)
    zeros = {"za": np.uint8(7), "zb": np.uint8(201)}
    path, weights = tmp_path / "m.onnx", tmp_path / "w.bin"
    onnx_models.save(
        path,
        [helper.make_node("MatMulInteger", names, ["y"])],
        [
            helper.make_tensor_value_info(n, TensorProto.UINT8, v.shape)
            for n, v in zip("ab", (a, b), strict=True)
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (2, 5, 6))],
        zeros,
    )
    built = import_model(path, weights)
    assert ("batch_matmul" in {w.kind for w in built.workloads}) == (k == 64)
    got = run_by_kernels(built, weights, {"a": a, "b": b}, "relaxed-simd")["y"]
    assert np.array_equal(got, (a.astype(np.int32) - 7) @ (b.astype(np.int32) - 201))
