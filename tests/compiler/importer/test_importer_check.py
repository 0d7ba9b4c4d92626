"""Every way a model file can be wrong: one sentence, and nothing else read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import mlp, save

from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.input_shapes import fix_input_shapes
from nnjit_studio.errors import ModelError, UnsupportedOpError
from nnjit_studio.model import GivenShapes


def with_external_data(tmp_path: Path) -> Path:
    path = mlp(tmp_path / "plain.onnx")
    out = tmp_path / "external.onnx"
    onnx.save(
        onnx.load(str(path)),
        str(out),
        save_as_external_data=True,
        location="weights.data",
        size_threshold=0,
    )
    return out


def test_a_good_model_loads_with_its_external_data(tmp_path: Path) -> None:
    model = check.load_model(with_external_data(tmp_path))
    assert {t.name for t in model.graph.initializer} == {"w1", "b1", "w2", "b2"}
    assert all(t.raw_data for t in model.graph.initializer)


def test_graphs_need_no_names(tmp_path: Path) -> None:
    model = onnx.load(mlp(tmp_path / "named.onnx"))
    port = [helper.make_empty_tensor_value_info("z")]
    branch = helper.make_graph([helper.make_node("Identity", [model.graph.output[0].name], ["z"])],
                               "b", [], port)  # fmt: skip
    branch.name = model.graph.name = ""
    both = {"then_branch": branch, "else_branch": branch}
    model.graph.node.append(helper.make_node("If", ["yes"], ["either"], **both))
    model.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    check.load_model(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"not a model at all", "not an ONNX model"),
        (b"PK\x03\x04" + bytes(100), "not an ONNX model"),
    ],
)
def test_not_an_onnx_file(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=said):
        check.load_model(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    data = mlp(tmp_path / "whole.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    for length in range(0, len(data) - 1, 7):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError):
            fix_input_shapes(check.load_model(path), GivenShapes())
            raise AssertionError(f"{length} bytes of {len(data)} were taken for a model")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no file"):
        check.load_model(tmp_path / "absent.onnx")


def test_missing_external_data(tmp_path: Path) -> None:
    path = with_external_data(tmp_path)
    (tmp_path / "weights.data").unlink()
    with pytest.raises(ModelError, match=r"weights\.data.*missing"):
        check.load_model(path)


def test_short_external_data(tmp_path: Path) -> None:
    path = with_external_data(tmp_path)
    (tmp_path / "weights.data").write_bytes(b"\0" * 10)
    with pytest.raises(ModelError, match="too short"):
        check.load_model(path)


@pytest.mark.parametrize("second", [Path.hardlink_to, Path.symlink_to])
def test_external_data_of_two_names(tmp_path: Path, second: Callable[[Path, Path], None]) -> None:
    path = with_external_data(tmp_path)
    expected = [array_of(t) for t in check.load_model(path).graph.initializer]
    (tmp_path / "weights.data").rename(tmp_path / "whole.data")
    second(tmp_path / "weights.data", tmp_path / "whole.data")
    for value, tensor in zip(expected, check.load_model(path).graph.initializer, strict=True):
        np.testing.assert_array_equal(array_of(tensor), value)


def test_a_cache_of_links_opens(tmp_path: Path) -> None:
    """As Hugging Face's hub keeps files: by content in one folder, names are links to them."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1" / "onnx"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, file in enumerate((with_external_data(blobs), blobs / "weights.data")):
        held = file.rename(blobs / (f"{number}" * 20))
        (snapshot / file.name).symlink_to(Path("../../../blobs", held.name))
    model = check.load_model(snapshot / "external.onnx")
    assert {t.name for t in model.graph.initializer} == {"w1", "b1", "w2", "b2"}
    (snapshot / "weights.data").unlink()
    (tmp_path / "secret.data").write_bytes(b"\0" * 10_000)
    (snapshot / "weights.data").symlink_to(tmp_path / "secret.data")
    with pytest.raises(ModelError, match="outside the model's folder"):
        check.load_model(snapshot / "external.onnx")


@pytest.mark.parametrize("location", ["../secret.data", "/etc/passwd", "link.data", ""])
def test_external_data_outside_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = with_external_data(folder)
    (tmp_path / "secret.data").write_bytes(b"\0" * 10_000)
    (folder / "link.data").symlink_to(tmp_path / "secret.data")
    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside the model's folder"):
        check.load_model(path)


def test_external_data_of_a_subgraph_is_checked_too(tmp_path: Path) -> None:
    path = with_external_data(tmp_path)
    model = onnx.load(str(path), load_external_data=False)
    weight = model.graph.initializer[0]
    weight.external_data[0].value = "../elsewhere.data"
    value = helper.make_tensor_value_info(weight.name, TensorProto.FLOAT, list(weight.dims))
    inner = helper.make_graph([], "inner", [], [value], [weight])
    model.graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=inner))
    del model.graph.initializer[0]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="points outside the model's folder"):
        check.load_model(path)


def test_unsupported_operator_names_its_node(tmp_path: Path) -> None:
    node = helper.make_node("Fourier", ["x"], ["y"], "transform", domain="ai.example")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with pytest.raises(
        UnsupportedOpError, match=r"Fourier \(domain ai.example\) of node 'transform'"
    ):
        check.check_operators(model, {"MatMul"})


def test_a_known_name_of_an_unknown_domain_is_another_operator(tmp_path: Path) -> None:
    model = onnx.load(str(mlp(tmp_path / "m.onnx")))
    check.check_operators(model, {n.op_type for n in model.graph.node})
    model.graph.node[0].domain = "ai.example"
    with pytest.raises(UnsupportedOpError, match=r"domain ai\.example"):
        check.check_operators(model, {n.op_type for n in model.graph.node})


def test_an_invalid_graph_is_refused(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "nowhere"], ["y"])
    path = save(tmp_path / "bad.onnx", [node], {"x": [2, 3]}, {"y": [2, 3]})
    with pytest.raises(ModelError, match="not a valid ONNX model"):
        check.load_model(path)


def test_weights_are_found_again_by_content(tmp_path: Path) -> None:
    model = check.load_model(mlp(tmp_path / "m.onnx"))
    found = check.weights_by_content(model)
    array = onnx.numpy_helper.to_array(model.graph.initializer[0])
    assert found[check.content_key(np.array(array))] == "w1"
    assert check.consumers_of_weights(model)["w1"] == ("first",)
