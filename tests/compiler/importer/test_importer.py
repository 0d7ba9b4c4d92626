"""A whole import: graph, workloads, plan and weights, checked by running the programs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_models import mlp, save
from run_plan import Arrays, run_plan

from nnjit_studio.compiler.importer import BuiltModel, graph_text, import_model
from nnjit_studio.compiler.importer.onnx.decompose import decompose
from nnjit_studio.compiler.importer.passes import CALL_PASSES, GRAPH_PASSES, MODEL_PASSES
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.errors import UnsupportedOpError, UserError
from nnjit_studio.model import GivenShapes, Graph


def run_by_reference(
    built: BuiltModel, weights: Path, feeds: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Every step by the float64 reference."""

    def call(workload: str, program: Program, arrays: Arrays) -> Arrays:
        inputs = {b.name: arrays[b.name] for b in program.buffers if b.role == "input"}
        found = evaluate(program, inputs)
        return {n: found[n].reshape(array.shape) for n, array in arrays.items() if n in found}

    return run_plan(built, weights, feeds, call)


def check_against_onnxruntime(path: Path, feeds: dict[str, np.ndarray]) -> BuiltModel:
    weights = path.with_suffix(".bin")
    built = import_model(path, weights)
    got = run_by_reference(built, weights, feeds)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    for name, expected in zip(names, session.run(names, feeds), strict=True):
        np.testing.assert_allclose(got[name], expected, rtol=2e-5, atol=2e-6)
    return built


def test_mlp_equals_onnxruntime(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((5, 6)).astype(np.float32)
    built = check_against_onnxruntime(mlp(tmp_path / "mlp.onnx"), {"x": x})
    names = [w.name for w in built.workloads]
    assert names == ["matmul:5x6x10:f32+bias+relu", "matmul:5x10x7:f32+bias", "softmax:5x7:f32"]
    assert [w.tunable for w in built.workloads] == [True, True, False]
    assert built.workloads[0].flops == 2 * 5 * 6 * 10
    assert built.graph.nodes[0].source == ("first", "first_bias", "relu")


def test_phases_are_told(tmp_path: Path) -> None:
    phases: list[str] = []
    import_model(mlp(tmp_path / "m.onnx"), tmp_path / "w.bin", phases.append)
    assert phases == [
        "reading the model",
        "loading the importer",
        "importing and fusing",
        "planning memory",
    ]


def test_a_graph_knows_its_passes_and_what_each_changed(tmp_path: Path) -> None:
    graph = import_model(mlp(tmp_path / "m.onnx"), tmp_path / "w.bin").graph
    names = [name for name, _ in (*MODEL_PASSES.passes, *CALL_PASSES.passes)]
    assert [p.name for p in graph.passes] == names
    for one, other in zip(graph.passes, graph.passes[1:], strict=False):
        assert one.unit != other.unit or one.after == other.before
    assert graph.passes[-1].after == len(graph.nodes)
    assert msgspec.convert(msgspec.to_builtins(graph), Graph) == graph


def text_after(path: Path, name: str) -> str:
    return graph_text(path, name, GivenShapes(), winograd=True, half_weights=False)


def test_the_graph_can_be_read_after_each_pass(tmp_path: Path) -> None:
    path = mlp(tmp_path / "m.onnx")
    texts = {name: text_after(path, name) for name in GRAPH_PASSES}
    assert "MatMul(x, " in texts["fold"]
    assert "matmul_add_relu(x:f32[5x6], " in texts["prepare"]
    with pytest.raises(UserError, match="no graph pass 'inline'"):
        text_after(path, "inline")


def test_a_refused_model_can_be_read_up_to_where_it_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Unique", ["x"], ["u"], "which")]
    path = save(tmp_path / "t.onnx", nodes, {"x": [4, 6]}, {"u": [3]})
    assert "u = Unique(x)" in text_after(path, "fold")
    with pytest.raises(UnsupportedOpError):
        text_after(path, "fuse_pointwise")


def test_reshapes_are_views(tmp_path: Path) -> None:
    shape = np.array([3, 8], np.int64)
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Exp", ["r"], ["e"]),
        helper.make_node("Softmax", ["e"], ["y"], axis=-1),
    ]
    path = save(tmp_path / "v.onnx", nodes, {"x": [4, 6]}, {"y": [3, 8]}, {"shape": shape})
    x = np.random.default_rng(2).standard_normal((4, 6)).astype(np.float32)
    check_against_onnxruntime(path, {"x": x})


def test_attention_pattern_equals_onnxruntime(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["t"]),
        helper.make_node("Softmax", ["t"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    shape: list[int | str] = [3, 5, 4]
    path = save(
        tmp_path / "a.onnx",
        nodes,
        {"q": shape, "k": shape, "v": shape},
        {"y": [3, 5, 4]},
        {"scale": np.array([0.5], np.float32)},
    )
    rng = np.random.default_rng(3)
    feeds = {n: rng.standard_normal((3, 5, 4)).astype(np.float32) for n in "qkv"}
    built = check_against_onnxruntime(path, feeds)
    kinds = [w.kind for w in built.workloads]
    assert kinds.count("batch_matmul") == kinds.count("batch_matmul_dot") == 1


def test_an_operator_sized_by_its_data_names_itself(tmp_path: Path) -> None:
    nodes = [helper.make_node("Unique", ["x"], ["u"], "which")]
    path = save(tmp_path / "t.onnx", nodes, {"x": [4, 6]}, {"u": [3]})
    with pytest.raises(UnsupportedOpError, match="operator Unique of node 'which' needs"):
        import_model(path, tmp_path / "w.bin")


def test_a_gemm_gets_its_weights_as_they_are_multiplied() -> None:
    """TVM would compile a kernel to turn each."""
    weight = np.arange(15, dtype=np.float32).reshape(5, 3)
    node = helper.make_node("Gemm", ["x", "w"], ["y"], "g", alpha=0.5, transB=1)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "xy"]
    held = [onnx.numpy_helper.from_array(weight, "w")]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], held)
    model = decompose(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    (made,) = model.graph.node
    (turned,) = (t for t in model.graph.initializer if t.name == made.input[1])
    assert {a.name: helper.get_attribute_value(a) for a in made.attribute}["alpha"] == 0.5
    assert "transB" not in {a.name for a in made.attribute}
    assert np.array_equal(onnx.numpy_helper.to_array(turned), weight.T)


def test_shape_inference_gets_no_large_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], [0.5] * 4096)
    low, high = (helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("l", 0), ("h", 6)))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"])]
    nodes.append(helper.make_node("Clip", ["m", "l", "h"], ["y"]))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 64]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight, low, high])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    asked: list[onnx.ModelProto] = []
    infer = onnx.shape_inference.infer_shapes

    def spy(light: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
        asked.append(light)
        return infer(light, **options)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", spy)
    decompose(model)
    assert [t.name for t in asked[0].graph.initializer] == ["l", "h"]
    assert [i.name for i in asked[0].graph.input] == ["x", "w"]
    assert {t.name for t in model.graph.initializer} >= {"w"}
