"""Decision trees, linear models and scalers of ai.onnx.ml, against native ONNX Runtime."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.onnx.ml import trees as ensembles
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.records import GPU_TIERS, TIERS

MODES = tuple(f"BRANCH_{m}" for m in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ"))
FEATURES = 5
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def rows(count: int = 9) -> np.ndarray:
    """Whole numbers, as thresholds are, so that many are equal; NaN in two rows."""
    made = np.random.default_rng(1).integers(-4, 5, (count, FEATURES)).astype(np.float32)
    made[3, 2] = np.nan
    made[5] = np.nan
    return made


def saved(
    path: Path, op: str, outputs: dict[str, int], x: np.ndarray, opset: int = 17, **attributes: Any
) -> Path:
    node = helper.make_node(op, ["x"], [*outputs], domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ports = [
        helper.make_tensor_value_info(n, k, [None] * (1 if n == "label" else x.ndim))
        for n, k in outputs.items()
    ]
    given = helper.make_tensor_value_info("x", kind, x.shape)
    imports = [helper.make_opsetid("ai.onnx.ml", 3), *[helper.make_opsetid("", opset)][: opset > 0]]
    graph = helper.make_graph([node], "g", [given], ports)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


def same_as_native(path: Path, x: np.ndarray) -> None:
    session = onnxruntime.InferenceSession(path)
    names = [o.name for o in session.get_outputs()]
    weights = path.with_suffix(".bin")
    built = import_model(path, weights)
    for tier in TIERS:
        got = run_by_kernels(built, weights, {"x": x}, tier)
        for name, wanted in zip(names, session.run(None, {"x": x}), strict=True):
            assert got[name].dtype == wanted.dtype
            np.testing.assert_allclose(got[name], wanted, 1e-5, 1e-6, strict=True)


def forest(what: str, weights: Any, modes: tuple[str, ...] = MODES, seed: int = 0) -> Any:
    """Attributes of four random trees; ``weights`` draws pairs of a target and a number."""
    rng = np.random.default_rng(seed)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
             "missing_value_tracks_true")  # fmt: skip
    nodes: dict[str, list[Any]] = {name: [] for name in names}
    leaves: dict[str, list[Any]] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, depth: int, first: int) -> int:
        here, me = len(nodes["nodeids"]), len(nodes["nodeids"]) - first
        drawn = (int(rng.integers(FEATURES)), float(rng.integers(-3, 4)))
        for name, value in zip(names, (tree, me, *drawn, "LEAF", 0, 0, me % 2), strict=True):
            nodes[name].append(value)
        if depth and rng.random() < 0.85:
            nodes["modes"][here] = modes[int(rng.integers(len(modes)))]
            nodes["truenodeids"][here] = grow(tree, depth - 1, first)
            nodes["falsenodeids"][here] = grow(tree, depth - 1, first)
        else:
            for target, weight in weights(rng):
                for name, value in zip(leaves, (tree, me, target, weight), strict=True):
                    leaves[name].append(value)
        return me

    for tree in range(4):
        grow(tree, 4, len(nodes["nodeids"]))
    return {f"nodes_{n}": v for n, v in nodes.items()} | {
        f"{what}_{n}": v for n, v in leaves.items()
    }


def some_of_three(rng: np.random.Generator) -> list[tuple[int, float]]:
    return [(t, rng.standard_normal()) for t in range(3) if t == 0 or rng.random() < 0.7]


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("base", [[], [0.5, -1.0, 2.0]])
def test_trees_of_three_targets(tmp_path: Path, how: str, base: list[float]) -> None:
    trees = forest("target", some_of_three)
    more = {"base_values": base} if base else {}
    path = saved(
        tmp_path / "m.onnx", "TreeEnsembleRegressor", {"y": FLOAT}, rows(), n_targets=3,
        aggregate_function=how, **trees, **more,
    )  # fmt: skip
    same_as_native(path, rows())


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("positive", [True, False])
def test_trees_of_classes(tmp_path: Path, transform: str, classes: int, positive: bool) -> None:
    def weights(rng: np.random.Generator) -> list[tuple[int, float]]:
        drawn = rng.random() / 4 if positive else rng.standard_normal()
        return [(c, drawn + c) for c in range(1 if classes == 2 else classes)]

    trees = forest("class", weights)
    path = saved(
        tmp_path / "m.onnx", "TreeEnsembleClassifier", {"label": INT, "y": FLOAT}, rows(),
        classlabels_int64s=[7, 8, 9][:classes], post_transform=transform, **trees,
    )  # fmt: skip
    same_as_native(path, rows())


def test_a_model_without_onnx_operators_of_its_own(tmp_path: Path) -> None:
    trees = forest("target", lambda rng: [(0, rng.standard_normal())])
    path = saved(
        tmp_path / "m.onnx", "TreeEnsembleRegressor", {"y": FLOAT}, rows(), opset=0, n_targets=1,
        **trees,
    )  # fmt: skip
    same_as_native(path, rows())


@pytest.mark.parametrize("classes", [2, 3])
def test_a_map_of_scores_is_their_tensor(tmp_path: Path, classes: int) -> None:
    x = np.nan_to_num(rows())
    scores = np.random.default_rng(2).standard_normal((classes, FEATURES))
    labels = [5, 6, 9][:classes]
    linear = helper.make_node(
        "LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        coefficients=scores.ravel().tolist(), intercepts=[0.5] * classes, classlabels_ints=labels,
    )  # fmt: skip
    named = helper.make_node(
        "ZipMap", ["scores"], ["y"], domain="ai.onnx.ml", classlabels_int64s=labels
    )
    row = helper.make_map_type_proto(INT, helper.make_tensor_type_proto(FLOAT, []))
    ports = [
        helper.make_tensor_value_info("label", INT, [None]),
        helper.make_value_info("y", helper.make_sequence_type_proto(row)),
    ]
    given = helper.make_tensor_value_info("x", FLOAT, x.shape)
    graph = helper.make_graph([linear, named], "g", [given], ports)
    imports = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    label, maps = onnxruntime.InferenceSession(path).run(None, {"x": x})
    built = import_model(path, tmp_path / "w.bin")
    for tier in TIERS:
        got = run_by_kernels(built, tmp_path / "w.bin", {"x": x}, tier)
        np.testing.assert_array_equal(got["label"], label)
        wanted = np.array([[each[n] for n in labels] for each in maps], np.float32)
        np.testing.assert_allclose(got["y"], wanted, 1e-5, 1e-6, strict=True)
    reference = OnnxReference(path).run({"x": x}, ["y"])
    np.testing.assert_allclose(reference["y"], wanted, 1e-5, 1e-6, strict=True)


KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def vectors_of(kernel: str, count: int, **more: Any) -> dict[str, Any]:
    drawn = np.random.default_rng(3).standard_normal((count, FEATURES)).ravel()
    params = [0.125, 0.5, 3.0]
    return {
        "support_vectors": drawn.tolist(),
        "kernel_type": kernel,
        "kernel_params": params,
    } | more


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("border", [0, 1])
def test_support_vectors_of_a_number(tmp_path: Path, kernel: str, border: int) -> None:
    weights = np.random.default_rng(4).standard_normal(6).tolist()
    path = saved(
        tmp_path / "m.onnx", "SVMRegressor", {"y": FLOAT}, rows(), n_supports=6,
        coefficients=weights, rho=[0.25], one_class=border, **vectors_of(kernel, 6),
    )  # fmt: skip
    same_as_native(path, rows())


def test_a_line_instead_of_support_vectors(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "m.onnx", "SVMRegressor", {"y": FLOAT}, rows(), coefficients=[1.0, -2, 3, 0, 1],
        rho=[0.25], kernel_type="LINEAR", kernel_params=[0.0, 0, 0],
    )  # fmt: skip
    same_as_native(path, rows())


@pytest.mark.parametrize(
    ("kernel", "counts", "transform"),
    [("RBF", n, t) for n in ([2, 3], [2, 1, 3], [1, 2, 1, 2]) for t in ("NONE", "LOGISTIC")]
    + [(kernel, [1, 4], "NONE") for kernel in KERNELS],
)
def test_support_vectors_of_classes(
    tmp_path: Path, kernel: str, counts: list[int], transform: str
) -> None:
    rng, classes, count = np.random.default_rng(5), len(counts), sum(counts)
    pairs = classes * (classes - 1) // 2
    path = saved(
        tmp_path / "m.onnx", "SVMClassifier", {"label": INT, "y": FLOAT}, rows(40),
        coefficients=rng.standard_normal((classes - 1) * count).tolist(), vectors_per_class=counts,
        rho=rng.standard_normal(pairs).tolist(), classlabels_ints=[7, 8, 9, 3][:classes],
        post_transform=transform, **vectors_of(kernel, count),
    )  # fmt: skip
    same_as_native(path, rows(40))


def test_probabilities_of_support_vectors_are_refused(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "m.onnx", "SVMClassifier", {"label": INT, "y": FLOAT}, rows(),
        coefficients=[1.0, -1.0], vectors_per_class=[1, 1], rho=[0.0], classlabels_ints=[0, 1],
        prob_a=[-1.0], prob_b=[0.0], **vectors_of("RBF", 2),
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError, match="no probabilities"):
        import_model(path, tmp_path / "w.bin")


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize(("categories", "opset"), [([2], 17), ([3, -1, 0, 2**40], 9)])
def test_a_one_at_the_place_of_a_category(
    tmp_path: Path, dtype: Any, categories: list[int], opset: int
) -> None:
    x = np.array([[3, 0, 5], [-1, 2, 0]], dtype)
    if dtype is np.int64:
        x[0, 2] = 2**40
    path = saved(
        tmp_path / "m.onnx", "OneHotEncoder", {"y": FLOAT}, x, opset, cats_int64s=categories,
        zeros=1,
    )  # fmt: skip
    same_as_native(path, x)


@pytest.mark.parametrize("shape", [(5,), (1, 5), (3, 5), (2, 1, 5)])
def test_features_of_a_constant_keep_its_rank_and_a_list_gets_a_row(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    held = np.random.default_rng(6).standard_normal(shape).astype(np.float32)
    picks = np.array([4, 0, 4], np.int64)
    node = helper.make_node("ArrayFeatureExtractor", ["held", "x"], ["y"], domain="ai.onnx.ml")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", INT, [3])],
        [helper.make_tensor_value_info("y", FLOAT, [None] * max(2, len(shape)))],
        [numpy_helper.from_array(held, "held")],
    )  # fmt: skip
    imports = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 17)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    same_as_native(path, picks)


@pytest.mark.parametrize("shape", [(5,), (2, 1, 5)])
def test_features_of_what_is_computed_are_alike(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(6).standard_normal(shape).astype(np.float32)
    nodes = [
        helper.make_node("Abs", ["x"], ["some"]),
        helper.make_node("ArrayFeatureExtractor", ["some", "picks"], ["y"], domain="ai.onnx.ml"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, [None] * max(2, len(shape)))],
        [numpy_helper.from_array(np.array([4, 0, 4]), "picks")],
    )  # fmt: skip
    imports = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 9)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    same_as_native(path, x)


def test_what_native_has_in_its_own_way_is_refused(tmp_path: Path) -> None:
    both = forest("class", lambda rng: [(0, rng.random()), (1, rng.random())])
    outputs = {"label": INT, "y": FLOAT}
    path = saved(
        tmp_path / "m.onnx", "TreeEnsembleClassifier", outputs, rows(), classlabels_int64s=[0, 1],
        **both,
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError, match="for the first alone"):
        import_model(path, tmp_path / "w.bin")


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX"])
def test_scores_of_both_classes_alone(tmp_path: Path, transform: str) -> None:
    """Nobody reads the class, in which ONNX Runtime has its own way."""
    both = forest("class", lambda rng: [(0, rng.random()), (1, rng.random())])
    path = saved(
        tmp_path / "m.onnx", "TreeEnsembleClassifier", {"label": INT, "y": FLOAT}, rows(),
        classlabels_int64s=[0, 1], post_transform=transform, **both,
    )  # fmt: skip
    model = onnx.load(path)
    del model.graph.output[0]
    onnx.save(model, path)
    same_as_native(path, rows())


@pytest.mark.parametrize("op", ["TreeEnsembleRegressor", "TreeEnsembleClassifier"])
def test_a_transformation_without_a_rule_is_refused(tmp_path: Path, op: str) -> None:
    what = "target" if op.endswith("Regressor") else "class"
    outputs = {"y": FLOAT} if what == "target" else {"label": INT, "y": FLOAT}
    more = {"n_targets": 1} if what == "target" else {"classlabels_int64s": [0, 1]}
    trees = forest(what, lambda rng: [(0, rng.random())])
    path = saved(tmp_path / "m.onnx", op, outputs, rows(), post_transform="PROBIT", **trees, **more)
    with pytest.raises(UnsupportedOpError, match="PROBIT"):
        import_model(path, tmp_path / "w.bin")


def test_no_node_of_a_forest_is_walked_by_itself(tmp_path: Path) -> None:
    def calls(times: int) -> int:
        many = {name: values * times for name, values in trees.items()}
        for name in ("nodes_treeids", "target_treeids"):
            length = len(trees[name])
            many[name] = [tree + 4 * (i // length) for i, tree in enumerate(many[name])]
        kind = {"y": FLOAT}
        path = saved(tmp_path / "m.onnx", "TreeEnsembleRegressor", kind, rows(), **many)
        rewriter = Rewriter(17, {}, {}, node=onnx.load(path).graph.node[0])
        events: list[str] = []
        sys.setprofile(lambda frame, event, _: events.append(event))
        try:
            ensembles.regressor(rewriter)
        finally:
            sys.setprofile(None)
        return events.count("call")

    trees = forest("target", lambda rng: [(0, rng.random())])
    assert calls(50) == calls(1)  # generators count as calls, too


@pytest.mark.parametrize(
    ("changed", "value", "told"),
    [
        ("nodes_featureids", 2**31, "in 32 bits"),
        ("target_weights", np.nan, "weights that are numbers"),
        ("nodes_truenodeids", 2, "one root, ahead"),  # nothing leads to node 1 any more
    ],
)
def test_trees_of_which_onnx_runtime_makes_other_numbers_are_refused(
    tmp_path: Path, changed: str, value: float, told: str
) -> None:
    trees = forest("target", lambda rng: [(0, 1.0)])
    trees[changed][0] = value
    path = saved(tmp_path / "m.onnx", "TreeEnsembleRegressor", {"y": FLOAT}, rows(), **trees)
    with pytest.raises(UnsupportedOpError, match=told):
        import_model(path, tmp_path / "w.bin")


def test_trees_with_circles_are_refused(tmp_path: Path) -> None:
    trees = forest("target", lambda rng: [(0, 1.0)])
    inner = [i for i, mode in enumerate(trees["nodes_modes"]) if mode != "LEAF"]
    parent = next(i for i in inner if trees["nodes_truenodeids"][i] > 0 and i + 1 in inner)
    trees["nodes_truenodeids"][parent + 1] = trees["nodes_nodeids"][parent + 1]
    path = saved(tmp_path / "m.onnx", "TreeEnsembleRegressor", {"y": FLOAT}, rows(), **trees)
    with pytest.raises(UnsupportedOpError, match="without circles"):
        import_model(path, tmp_path / "w.bin")


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Binarizer", {"threshold": 0.5}),
        ("Imputer", {"imputed_value_floats": [1.0, 2, 3, 4, 5], "replaced_value_float": np.nan}),
        ("LinearRegressor", {"coefficients": [0.5] * 10, "intercepts": [1.0, 2], "targets": 2}),
        ("Normalizer", {"norm": "MAX"}),
        ("Normalizer", {"norm": "L1"}),
        ("Normalizer", {"norm": "L2"}),
        ("Scaler", {"offset": [1.0, 2, 3, 4, 5], "scale": [0.5] * 5}),
        ("Scaler", {"offset": [1.0], "scale": [0.5]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value))[:30],
)
def test_columns(tmp_path: Path, op: str, attributes: dict[str, Any]) -> None:
    x = rows() if op == "Imputer" else np.nan_to_num(rows())
    same_as_native(saved(tmp_path / "m.onnx", op, {"y": FLOAT}, x, **attributes), x)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_linear_classifier(tmp_path: Path, classes: int, transform: str) -> None:
    x = np.nan_to_num(rows())
    drawn = np.random.default_rng(2).standard_normal(classes * FEATURES).astype(np.float32)
    path = saved(
        tmp_path / "m.onnx", "LinearClassifier", {"label": INT, "y": FLOAT}, x,
        coefficients=drawn.tolist(), intercepts=[0.1, 0.2, 0.3][:classes],
        classlabels_ints=[4, 5, 6][:classes], post_transform=transform, multi_class=0,
    )  # fmt: skip
    same_as_native(path, x)


def test_numbers_for_numbers(tmp_path: Path) -> None:
    x = np.array([[1, 2, 3], [4, 2, 1]], np.int64)
    held = {"keys_int64s": [1, 2, 4], "values_floats": [0.5, 1.5, 2.5], "default_float": 9.0}
    same_as_native(saved(tmp_path / "m.onnx", "LabelEncoder", {"y": FLOAT}, x, **held), x)
    held = {"keys_int64s": [1, 2, 4], "values_int64s": [10, 20, 30]}
    same_as_native(saved(tmp_path / "n.onnx", "LabelEncoder", {"y": INT}, x, **held), x)


def member_model(path: Path) -> tuple[Path, np.ndarray]:
    """A tree that asks for members of a set, then for a threshold; one leaf stands alone."""
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, aggregate_function=1,
        post_transform=0, tree_roots=[0, 2], nodes_modes=tensor([6, 0, 0], np.uint8),
        nodes_featureids=[0, 1, 0], nodes_splits=tensor([0, 1.5, 0], np.float32),
        nodes_truenodeids=[0, 1, 3], nodes_trueleafs=[1, 1, 1],
        nodes_falsenodeids=[1, 2, 3], nodes_falseleafs=[0, 1, 1],
        leaf_targetids=[0, 0, 0, 0], leaf_weights=tensor([1, 10, 100, 1000], np.float32),
        membership_values=tensor([2, -3, 4, np.nan], np.float32),
    )  # fmt: skip
    x = np.array([[2, 0], [-3, 9], [4, 9], [3, 1], [3, 2], [np.nan, 1]], np.float32)
    given = helper.make_tensor_value_info("x", FLOAT, x.shape)
    made = helper.make_tensor_value_info("y", FLOAT, [len(x), 1])
    graph = helper.make_graph([node], "g", [given], [made])
    imports = [helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path, x


def tensor(values: list[float], dtype: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype))


def test_members_of_a_set(tmp_path: Path) -> None:
    same_as_native(*member_model(tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nodes_trueleafs", [1, 1]),
        ("nodes_falsenodeids", [9, 2, 3]),
        ("leaf_targetids", [0, 0, 7, 0]),
        ("nodes_modes", helper.make_tensor("", TensorProto.UINT8, [3], [6, 8, 0])),
    ],
)
def test_attributes_that_do_not_fit_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    path, _ = member_model(tmp_path / "m.onnx")
    model = onnx.load(path)
    held = next(a for a in model.graph.node[0].attribute if a.name == name)
    held.CopyFrom(helper.make_attribute(name, value))
    onnx.save(model, path)
    with pytest.raises(UnsupportedOpError, match="TreeEnsemble of node"):
        import_model(path, tmp_path / "w.bin")


def test_trees_on_a_gpu(tmp_path: Path) -> None:
    from run_plan_wgsl import run_by_documents  # skips where Python has no wgpu

    trees, outputs = forest("target", some_of_three), {"y": FLOAT}
    path = saved(
        tmp_path / "m.onnx", "TreeEnsembleRegressor", outputs, rows(), n_targets=3, **trees
    )
    built = import_model(path, tmp_path / "w.bin")
    got = run_by_documents(built, tmp_path / "w.bin", {"x": rows()}, GPU_TIERS[0])
    wanted = onnxruntime.InferenceSession(path).run(None, {"x": rows()})[0]
    np.testing.assert_allclose(got["y"], wanted, 1e-5, 1e-6)


DISTANCES = """
<ir_version: 8, opset_import: ["" : OPSET]>
g (float[N, 3] x) => (float[N, 3] same, float[150, N] y) <float[150, 3] held> {
    same, y = Scan <num_scan_inputs = 1, body = each (float[a, 3] rows, float[3] row)
        => (float[a, 3] kept, float[a] one) <REST> {
        kept = Identity(rows)
        apart = Sub(rows, row)
        sum = ReduceSumSquare <keepdims = 0AXES
        one = Identity(sum)
    }>(x, held)
}
"""
"""What skl2onnx writes of the distances of nearest neighbours and Gaussian processes."""


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("count", [1, 4])
def test_distances_of_more_rows_than_a_scan_may_have(
    tmp_path: Path, opset: int, count: int
) -> None:
    rest, axes = (
        ("", ", axes = [1]>(apart)") if opset < 18 else ("int64[1] axis = {1}", ">(apart, axis)")
    )
    text = DISTANCES.replace("OPSET", str(opset)).replace("REST", rest).replace("AXES", axes)
    model = parser.parse_model(text.replace("N", str(count)).replace("<>", ""))
    rng = np.random.default_rng(7)
    held = rng.standard_normal((150, 3)).astype(np.float32)
    del model.graph.value_info[:]
    del model.graph.initializer[:]
    model.graph.initializer.append(numpy_helper.from_array(held, "held"))
    onnx.save(model, tmp_path / "m.onnx")
    same_as_native(tmp_path / "m.onnx", rng.standard_normal((count, 3)).astype(np.float32))
