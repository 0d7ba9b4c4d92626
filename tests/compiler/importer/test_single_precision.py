"""Models in half precision run as their float32 form; only inputs and outputs stay halves."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from decoder_models import decoder
from onnx import TensorProto, helper, numpy_helper, parser
from onnxruntime.transformers.float16 import convert_float_to_float16
from run_plan import run_by_kernels
from test_quantised import block_model

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.importer.generation import import_generation
from nnjit_studio.compiler.importer.onnx.single_precision import single_precision
from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.compiler.oracle.native_decode import NativeDecoder
from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference
from nnjit_studio.model import GenerationRequest
from nnjit_studio.model.feeds import session_feeds
from nnjit_studio.samples.zoo import write_model

HALF, FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT
Arrays = dict[str, np.ndarray]


def native(model: onnx.ModelProto, feeds: Arrays) -> Arrays:
    session = native_session(model.SerializeToString(), intra_op_num_threads=1)
    wanted = [o.name for o in session.get_outputs()]
    return dict(zip(wanted, session.run(wanted, feeds), strict=True))


def with_weights_of(model: onnx.ModelProto, half: onnx.ModelProto) -> onnx.ModelProto:
    """The float32 model with the values that its weights have as halves."""
    rounded = {t.name: t for t in half.graph.initializer if t.data_type == HALF}
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for tensor in result.graph.initializer:
        if tensor.name in rounded:
            values = numpy_helper.to_array(rounded[tensor.name]).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return result


def apart(got: Arrays, expected: Arrays) -> float:
    """Largest difference, relative to an output's largest value."""
    return max(
        float(np.abs(got[n].astype(np.float64) - e.astype(np.float64)).max() / np.abs(e).max())
        for n, e in expected.items()
    )


FORMS: dict[str, dict[str, Any]] = {
    "whole": {},
    "float32 ports": {"keep_io_types": True},
    "mixed": {"keep_io_types": True, "op_block_list": ["LayerNormalization", "Softmax"]},
}
CASES = [*(("vit-tiny", form) for form in FORMS), ("mobilenet-v2", "whole")]


def names(built: BuiltModel) -> set[str]:
    """Products of halves are scaled."""
    return {w.name.replace("+scale", "") for w in built.workloads}


@pytest.fixture(scope="module")
def float32(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, BuiltModel]]:
    """A model of the zoo and its import, made once for its forms."""

    @cache
    def made(name: str) -> tuple[Path, BuiltModel]:
        folder = tmp_path_factory.mktemp(name)
        path = write_model(name, folder / "m.onnx", small=True)
        return path, import_model(path, folder / "plain.bin")

    return made


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_half_model_is_its_float32_model(
    name: str, form: str, float32: Callable[[str], tuple[Path, BuiltModel]], tmp_path: Path
) -> None:
    path, plain = float32(name)
    model = onnx.load(path)
    half = convert_float_to_float16(onnx.load(path), **FORMS[form])
    onnx.save(half, tmp_path / "half.onnx")
    session = native_session(half.SerializeToString())
    feeds = session_feeds(session, {})
    floats = {n: a.astype(np.float32) for n, a in feeds.items()}

    built = import_model(tmp_path / "half.onnx", tmp_path / "w.bin")
    # The borders' Casts are steps of their own.
    ports = 2 * int(form == "whole")
    assert not names(plain) - names(built)
    assert len(built.plan.steps) == len(plain.plan.steps) + ports
    got = run_by_kernels(built, tmp_path / "w.bin", feeds, "relaxed-simd")

    halves = native(half, feeds)
    assert {n: a.dtype for n, a in got.items()} == {n: a.dtype for n, a in halves.items()}
    # Half an f16 step where the output is f16; else what float32 sums differ by.
    step = 5e-4 if form == "whole" else 2e-5
    assert apart(got, native(with_weights_of(model, half), floats)) <= step
    assert apart(got, halves) <= 2e-3
    if name == "vit-tiny":
        assert built.plan.weights_bytes < 0.9 * plain.plan.weights_bytes
    assert apart(got, native(model, floats)) <= 2e-2  # what the weights' rounding does


def typed(dtype: int, *names: str) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(n, dtype, [3, 4]) for n in names]


def graph_of(
    nodes: list[onnx.NodeProto], inputs: Any, outputs: Any, **weights: np.ndarray
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_casts_between_halves_and_floats_go_and_borders_get_one() -> None:
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Cast", ["a"], ["wide"], to=FLOAT),
        helper.make_node("Relu", ["wide"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=HALF),
        helper.make_node("Cast", ["y"], ["whole"], to=TensorProto.INT32),
        helper.make_node("Cast", ["a"], ["z"], to=FLOAT),
    ]
    outputs = [*typed(HALF, "y"), *typed(TensorProto.INT32, "whole"), *typed(FLOAT, "z")]
    weight = np.array([1.5], np.float16)
    model = single_precision(graph_of(nodes, typed(HALF, "x"), outputs, w=weight))
    onnx.checker.check_model(model, full_check=True)
    assert [n.op_type for n in model.graph.node] == [
        "Cast", "Add", "Relu", "Identity", "Cast", "Identity", "Cast",
    ]  # fmt: skip
    assert [p.type.tensor_type.elem_type for p in model.graph.input] == [HALF]
    (held,) = model.graph.initializer
    assert (held.data_type, numpy_helper.to_array(held)[0]) == (FLOAT, 1.5)


def test_dtypes_in_attributes_are_widened(tmp_path: Path) -> None:
    shape = [70, 1000]  # too large to be folded
    large = (np.arange(70_000) % 512).astype(np.float16).reshape(shape)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(large)),
        helper.make_node("Cast", ["i"], ["f"], to=HALF),
        helper.make_node("Add", ["f", "c"], ["y"]),
    ]
    given = helper.make_tensor_value_info("i", TensorProto.INT32, shape)
    made = helper.make_tensor_value_info("y", HALF, shape)
    onnx.save(graph_of(nodes, [given], [made]), tmp_path / "m.onnx")
    built = import_model(tmp_path / "m.onnx", tmp_path / "w.bin")
    feeds = {"i": np.random.default_rng(0).integers(-50, 50, shape).astype(np.int32)}
    got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")["y"]
    expected = (feeds["i"].astype(np.float32) + large.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(got, expected)


def test_doubles_are_computed_in_float32(tmp_path: Path) -> None:
    double = TensorProto.DOUBLE
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["a"]),
        helper.make_node("Cast", ["x"], ["wide"], to=double),
        helper.make_node("Mul", ["a", "wide"], ["y"]),
    ]
    given = [*typed(FLOAT, "x"), *typed(TensorProto.INT64, "i")]
    model = graph_of(nodes, given, typed(double, "y"), table=np.array([0.5, 1 / 3, 440.0]))
    onnx.save(model, tmp_path / "m.onnx")
    shape = [d.dim_value for d in given[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    feeds = {"x": x, "i": np.resize(np.array([2, 1, 0]), shape)}
    built = import_model(tmp_path / "m.onnx", tmp_path / "w.bin")
    got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")["y"]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, native(model, feeds)["y"], rtol=1e-6)


def test_an_input_in_double_precision_is_given_in_single(tmp_path: Path) -> None:
    """Graphs inside nodes read it too, and an output may be the input itself."""
    text = """
    <ir_version: 9, opset_import: ["" : 17]>
    g (double[3, 4] x, double[1] n, bool on) => (double[3, 4] y, double[1] n) {
        scale = Constant<value = double {0.1}>()
        scaled = Mul(x, scale)
        y = If (on) <then_branch = a () => (double[3, 4] p) { p = Add(scaled, x) },
                     else_branch = b () => (double[3, 4] q) { q = Sub(scaled, x) }>
    }
    """
    model, path = parser.parse_model(text), tmp_path / "m.onnx"
    onnx.save(model, path)
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((3, 4)).astype(np.float32), "on": np.array(True)}
    feeds["n"] = np.ones(1, np.float32)
    built = import_model(path, tmp_path / "w.bin")
    assert [p.spec.dtype for p in built.plan.inputs] == ["f32", "f32", "bool"]
    got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")
    wide = {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in feeds.items()}
    assert np.array_equal(got["n"], feeds["n"])
    for expected in (native(model, wide)["y"], OnnxReference(path).run(feeds, ["y"])["y"]):
        assert expected.dtype == np.float64
        np.testing.assert_allclose(got["y"], expected, rtol=1e-6)


def test_four_bit_weights_with_half_scales(tmp_path: Path) -> None:
    model, feeds, _ = block_model(tmp_path / "m.onnx", [3, 64], 21, 32, True)
    half = convert_float_to_float16(model, disable_shape_infer=True)
    assert half.graph.input[0].type.tensor_type.elem_type == HALF
    onnx.save(half, tmp_path / "half.onnx")
    built = import_model(tmp_path / "half.onnx", tmp_path / "w.bin")
    assert [w.kind for w in built.workloads if "matmul" in w.kind] == ["matmul_4bit"]
    x = feeds["x"].astype(np.float16)
    got = run_by_kernels(built, tmp_path / "w.bin", {"x": x}, "simd128")
    model = onnx.load(tmp_path / "m.onnx")
    expected = native(with_weights_of(model, half), {"x": x.astype(np.float32)})
    assert got["y"].dtype == np.float16
    assert apart(got, expected) <= 5e-4


def test_a_model_in_float32_is_left_alone() -> None:
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=FLOAT)]
    model = graph_of(nodes, typed(FLOAT, "x"), typed(FLOAT, "y"))
    before = model.SerializeToString()
    assert single_precision(model).SerializeToString() == before


def kernels(built: BuiltModel) -> list[str]:
    """Without their keys: constants in them are rounded."""
    return [s.workload.split("#")[0].replace("+scale", "") for s in built.plan.steps]


@pytest.mark.filterwarnings("ignore:Renaming name")
def test_a_half_decoder_keeps_a_float32_cache(tmp_path: Path) -> None:
    plain = import_generation(
        decoder(tmp_path / "m.onnx"), tmp_path / "w.bin", GenerationRequest(rows=8)
    )
    half = convert_float_to_float16(onnx.load(tmp_path / "m.onnx"), disable_shape_infer=True)
    onnx.save(half, tmp_path / "half.onnx")
    built = import_generation(
        tmp_path / "half.onnx", tmp_path / "w2.bin", GenerationRequest(rows=8)
    )
    for ours, wanted in ((built.decode, plain.decode), (built.prefill, plain.prefill)):
        assert ours is not None and wanted is not None
        assert kernels(ours) == kernels(wanted)
        assert ours.plan.state_bytes == wanted.plan.state_bytes
        assert [p.spec.dtype for p in ours.plan.outputs] == ["f32"]
    choices = [NativeDecoder(tmp_path / n, [3, 5]).compare([7]) for n in ("m.onnx", "half.onnx")]
    assert choices[0][0].id == choices[1][0].id
