"""Nodes between bytes that become a table, compared with native ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper
from onnx_models import save
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.importer.onnx import byte_functions

KINDS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}
SHAPE = [2, 3, 5, 7]
Nodes = list[onnx.NodeProto]


class Chain:
    """Nodes behind one another, each of whose results goes through bytes."""

    def __init__(self, kind: type) -> None:
        self.nodes: Nodes = []
        middle = 0 if kind is np.int8 else 128
        self.weights: dict[str, np.ndarray] = {"zero": np.array(middle, kind)}

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], out, **attributes))
        return out

    def number(self, value: float, axes: int = 0) -> str:
        name = f"n{len(self.weights)}"
        self.weights[name] = np.full([1] * axes, value, np.float32)
        return name

    def bytes_of(self, x: str, scale: float = 0.03) -> str:
        return self.op("QuantizeLinear", x, self.number(scale), "zero")

    def floats_of(self, x: str, scale: float = 0.03) -> str:
        return self.op("DequantizeLinear", x, self.number(scale), "zero")

    def through_bytes(self, x: str, scale: float = 0.03) -> str:
        return self.floats_of(self.bytes_of(x, scale), scale)

    def end(self, x: str) -> None:
        self.nodes.append(helper.make_node("Identity", [x], ["y"]))

    def compared(self, folder: Path, tier: str = "relaxed-simd") -> BuiltModel:
        """The plan, whose output is ONNX Runtime's to the bit where a table makes it."""
        path = save(folder / "m.onnx", self.nodes, {"x": SHAPE}, {"y": SHAPE}, self.weights)
        feeds = {"x": np.random.default_rng(1).uniform(-6, 6, SHAPE).astype(np.float32)}
        (wanted,) = exact_session(path, passes=False).run(None, feeds)
        built = import_model(path, folder / "w.bin")
        got = run_by_kernels(built, folder / "w.bin", feeds, tier)["y"]
        np.testing.assert_array_equal(got, wanted)
        return built


def tables(built: BuiltModel) -> int:
    return sum("byte_function" in step.workload for step in built.plan.steps)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_a_hard_swish_of_many_roundings_is_one_table(tmp_path: Path, kind: type, tier: str) -> None:
    chain = Chain(kind)
    first = chain.through_bytes("x", 0.05)
    moved = chain.through_bytes(chain.op("Add", first, chain.number(3.0, 1)))
    limits = chain.number(0.0), chain.number(6.0)
    gate = chain.through_bytes(chain.op("Clip", moved, *limits), 6 / 255)
    last = chain.op("Div", chain.op("Mul", first, gate), chain.number(6.0, 4))
    chain.end(chain.floats_of(chain.bytes_of(last)))
    assert tables(chain.compared(tmp_path, tier)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_product_of_a_tables_bytes_is_one_of_integers(tmp_path: Path, kind: type) -> None:
    chain = Chain(kind)
    gate = chain.through_bytes(chain.op("Sigmoid", chain.through_bytes("x", 0.05)), 1 / 255)
    chain.weights["w"] = np.random.default_rng(2).integers(-127, 128, (7, 7), np.int8)
    chain.weights["none"] = np.array(0, np.int8)
    weight = chain.op("DequantizeLinear", "w", chain.number(0.01), "none")
    chain.end(chain.through_bytes(chain.op("MatMul", gate, weight), 0.05))
    built = chain.compared(tmp_path)
    assert tables(built) == 1
    assert any("matmul_int8" in step.workload for step in built.plan.steps)


def test_bytes_that_others_read_too_stay(tmp_path: Path) -> None:
    chain = Chain(np.uint8)
    first = chain.through_bytes("x", 0.05)
    gate = chain.through_bytes(chain.op("Sigmoid", first), 1 / 255)
    product = chain.through_bytes(chain.op("Mul", first, gate))
    chain.end(chain.op("Add", chain.op("Sub", product, "x"), gate))
    assert tables(chain.compared(tmp_path)) == 2


def test_a_long_chain_is_several_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_functions, "_MOST_NODES", 12)
    chain = Chain(np.int8)
    x = chain.through_bytes("x", 0.05)
    for value in (1.5, 0.5, 2.0, 0.7, 0.9, 1.2, 0.8):
        x = chain.through_bytes(chain.op("Mul", x, chain.number(value)))
    chain.end(x)
    assert tables(chain.compared(tmp_path)) > 1


def test_what_costs_less_than_a_table_stays(tmp_path: Path) -> None:
    chain = Chain(np.uint8)
    halved = chain.op("Mul", chain.through_bytes("x", 0.05), chain.number(0.5))
    chain.end(chain.floats_of(chain.bytes_of(halved)))
    assert tables(chain.compared(tmp_path)) == 0


def test_two_tensors_are_no_function_of_one(tmp_path: Path) -> None:
    chain = Chain(np.uint8)
    first, other = chain.through_bytes("x", 0.05), chain.through_bytes(chain.op("Neg", "x"))
    product = chain.op("Mul", chain.op("Sigmoid", first), chain.op("Tanh", other))
    chain.end(chain.through_bytes(product))
    path = save(tmp_path / "two.onnx", chain.nodes, {"x": SHAPE}, {"y": SHAPE}, chain.weights)
    assert tables(import_model(path, tmp_path / "w.bin")) == 0


def test_a_number_with_more_axes_than_the_bytes_stays(tmp_path: Path) -> None:
    chain = Chain(np.uint8)
    wide = chain.op("Sigmoid", chain.op("Add", chain.through_bytes("x"), chain.number(1.0, 5)))
    chain.end(chain.through_bytes(wide))
    shapes: dict[str, list[int | str]] = {"x": [*SHAPE]}
    path = save(tmp_path / "m.onnx", chain.nodes, shapes, {"y": [1, *SHAPE]}, chain.weights)
    assert tables(import_model(path, tmp_path / "w.bin")) == 0


def test_the_step_of_a_table_names_all_nodes_in_it(tmp_path: Path) -> None:
    chain = Chain(np.uint8)
    first = chain.through_bytes("x", 0.05)
    inside = [chain.op("Sigmoid", first), chain.op("Tanh", f"t{len(chain.nodes) - 1}")]
    end = chain.bytes_of(inside[-1])
    chain.end(chain.floats_of(end))
    built = chain.compared(tmp_path)
    (step,) = (node for node in built.graph.nodes if "byte_function" in node.workload)
    assert step.name == end
    assert set(step.source) >= {first, *inside, end}
