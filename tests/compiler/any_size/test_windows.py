"""Sizes at which a window is larger than its map count as sizes that do not run."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper, parser
from onnx_models import save
from run_plan import run_by_kernels

from nnjit_studio.compiler.any_size import imports
from nnjit_studio.compiler.any_size import probe as probing
from nnjit_studio.compiler.any_size.formulas.fit import Numbers
from nnjit_studio.compiler.any_size.imported_sizes import EVEN
from nnjit_studio.compiler.any_size.imports import import_any, import_sizes
from nnjit_studio.compiler.any_size.probe import probe
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.compiler.any_size.windows import windows
from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.model.size import Dim, size


def pool(**attributes: object) -> NodeProto:
    return helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], **attributes)


@pytest.mark.parametrize(
    ("attributes", "least"),
    [
        ({}, (3, 3)),
        ({"pads": [1, 0, 1, 0]}, (1, 3)),
        ({"dilations": [2, 1]}, (5, 3)),
        ({"auto_pad": "VALID"}, (3, 3)),
    ],
)
def test_the_extents_that_a_window_wants(attributes: dict[str, object], least: object) -> None:
    (window,) = windows(helper.make_graph([pool(**attributes)], "g", [], []))
    assert (window.tensor, window.least) == ("x", least)
    assert window.fits((1, 8, 5, 3)) and not window.fits((1, 8, 5, 2))


def test_padding_that_follows_from_the_map_fits_every_window() -> None:
    nodes = [pool(auto_pad="SAME_UPPER"), pool(pads=[1, 1, 1, 1])]
    assert windows(helper.make_graph(nodes, "g", [], [])) == ()


def test_a_range_begins_where_all_windows_fit(tmp_path: Path) -> None:
    """ONNX Runtime answers with one place where two pixels slide over one."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, 3, "h", "w"]}, {"y": [1, 3, None, None]})
    feeds = {"x": np.ones((1, 3, 20, 30), np.float32)}
    found = probe(Trial(path, feeds), feeds)
    assert {d.name: d.low for d in found.dims} == {"h": 8, "w": 8}


def test_a_product_of_shifted_sizes_has_a_formula() -> None:
    """The part of a padded map that strided windows see: (2 h + 1) rows of (2 w + 3) floats."""
    h, w = size(Dim("h", 1, 1000, 1)), size(Dim("w", 1, 1000, 1))
    at = [(3, 8), (90, 21), (45, 60), (7, 33), (120, 14), (61, 62)]
    rows = Numbers({tuple(a for a, _ in at): h, tuple(b for _, b in at): w})
    wanted = tuple(4 * (2 * a + 1) * (2 * b + 3) for a, b in at)
    assert rows.formula(wanted) is None
    found = rows.shifted_formula(wanted, (h, w))
    assert found is not None and found.at({"h": 11, "w": 13}) == 4 * 23 * 29
    assert rows.shifted_formula((*wanted[:5], wanted[5] + 1), (h, w)) is None


def test_a_pooling_with_half_windows_takes_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a window at the end of an odd map is other code, which is right for even ones too. Of a
    map that strides twice, rows of 2 floordiv(w + 1, 2) + 4 are not w + 5 for that."""
    path, drawn = tmp_path / "m.onnx", imports.sizes_to_import
    asked = []

    def mixed(*given: Any) -> list[dict[str, int]]:
        asked.append(given[3:4])
        odd = drawn(*given)
        return odd if given[3] else [{"h": 11, "w": 13}, *odd[1:-1], {"h": 24, "w": 32}]

    monkeypatch.setattr(imports, "sizes_to_import", mixed)
    rng = np.random.default_rng(0)
    held = {
        "v": rng.standard_normal((4, 2, 3, 3)).astype(np.float32),
        "k": rng.standard_normal((4, 1, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node(
            "MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER"
        ),
        helper.make_node("Conv", ["x", "v"], ["a"], strides=[2, 2], pads=[1] * 4),
        helper.make_node("Conv", ["a", "k"], ["z"], strides=[2, 1], pads=[1] * 4, group=4),
    ]
    outputs = {"y": [1, 2, None, None], "z": [1, 4, None, None]}
    save(path, nodes, {"x": [1, 2, "h", "w"]}, outputs, held)
    made = import_any(path, tmp_path / "w.bin", {"x": np.ones((1, 2, 12, 16), np.float32)})
    assert made is not None and made.notes == () and asked == [(False,), (True,), (True,)]
    assert {d.name: d.step for d in made.plan.dims} == {"h": 1, "w": 1}
    runner = OpenRunner(made.plan, made.kernels, tmp_path / "w.bin", "simd128")
    for h, w in ((30, 44), (31, 45), (30, 47), (65, 66)):
        x = rng.standard_normal((1, 2, h, w)).astype(np.float32)
        got = runner.run({"h": h, "w": w}, {"x": x})
        for name, wanted in zip(got, native_session(path).run(list(got), {"x": x}), strict=True):
            np.testing.assert_allclose(got[name], wanted, atol=1e-4)


def halves(path: Path, last: NodeProto) -> Path:
    """Five convolutions that halve a picture, and what follows."""
    half = {"v": np.ones((1, 1, 3, 3), np.float32)}
    nodes = [
        helper.make_node("Conv", [x, "v"], [y], strides=[2, 2], pads=[1] * 4)
        for x, y in itertools.pairwise("xabcde")
    ]
    return save(path, [*nodes, last], {"x": [1, 1, "h", 64]}, {"y": [None] * 4}, half)


def test_a_last_map_of_one_row_at_small_sizes_has_more_at_large_ones(tmp_path: Path) -> None:
    """As in a classifier of lines of text: no size below 97 tells that the pooling leaves rows."""
    last = helper.make_node("MaxPool", ["e"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    path, rng = halves(tmp_path / "m.onnx", last), np.random.default_rng(0)
    inputs = [{"x": rng.standard_normal((1, 1, h, 64)).astype(np.float32)} for h in (48, 97, 300)]
    for built, feeds in zip(
        import_sizes(path, tmp_path / "w.bin", inputs).models, inputs, strict=True
    ):
        got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")["y"]
        np.testing.assert_allclose(got, native_session(path).run(["y"], feeds)[0], rtol=1e-4)


def test_windows_that_samples_do_not_tell_apart_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 33 to 40 and 448 rows floordiv(h + 31, 64) is floordiv(h + 63, 64)."""
    last = helper.make_node("MaxPool", ["e"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    path = halves(tmp_path / "m.onnx", last)
    drawn = [{"h": h} for h in (38, 39, 40, 34, 33, 36, 35, 448)]

    def samples(trial: Trial, *_: object) -> object:
        return drawn, [trial.run(sizes, trial.tensors) for sizes in drawn]

    monkeypatch.setattr(probing, "_samples", samples)
    monkeypatch.setattr(probing, "_with_far_sizes", lambda trial, found, example: found)
    feeds = {"x": np.ones((1, 1, 224, 64), np.float32)}
    found = probe(Trial(path, feeds), feeds)
    assert list(found.samples) == drawn
    assert list(found.fit().found.values())[-1] == [(size(Dim("h", 33)) + 31) // 64]


def test_sizes_that_are_asked_for_odd_are_odd_and_even_ones_follow() -> None:
    dims = (Dim("h"), Dim("w", 4, 40, 4), Dim("c", 2, 64, 2))
    drawn = imports.sizes_to_import(dims, [], {"h": 12, "w": 8, "c": 2}, True)
    kinds = [{s["h"] % 2, s["w"] // 4 % 2, s["c"] // 2 % 2} for s in drawn]
    assert kinds == [{1}] * imports.IMPORTS + [{0}] * EVEN


def test_of_two_sizes_each_is_the_larger_one_somewhere() -> None:
    """Else the larger of them is taken for one of them, at all sizes."""
    for seed in range(40):
        dims = (Dim("h", 2, 500), Dim("w", 2, 500))
        drawn = imports.sizes_to_import(dims, [], {"h": 40, "w": 50}, seed=seed)
        assert {s["h"] < s["w"] for s in drawn} == {True, False}


def test_windows_that_stride_over_a_signal_take_any_length(tmp_path: Path) -> None:
    """As an encoder of speech has them: wider than their strides, the last samples left over."""
    rng = np.random.default_rng(0)
    weights = {"v": rng.standard_normal((8, 1, 10)), "w": rng.standard_normal((8, 8, 3))}
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], strides=[5]),
        helper.make_node("Conv", ["a", "w"], ["y"], strides=[2]),
    ]
    held = {name: array.astype(np.float32) for name, array in weights.items()}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", 1, "s"]}, {"y": ["n", 8, None]}, held)
    inputs = [
        {"x": rng.standard_normal((n, 1, s)).astype(np.float32)} for n, s in ((1, 74), (3, 399))
    ]
    made = import_sizes(path, tmp_path / "w.bin", inputs)
    assert made.notes == ()
    for built, feeds in zip(made.models, inputs, strict=True):
        got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")["y"]
        wanted = native_session(path).run(["y"], feeds)[0]
        np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_rows_in_the_middle_of_a_table_are_read_at_any_length(tmp_path: Path) -> None:
    """Relative positions as conformers have them: 2 s - 1 rows around the middle one."""
    rng = np.random.default_rng(0)
    held = {
        "table": rng.standard_normal((1, 401, 4)).astype(np.float32),
        "first": np.array([201], np.int64), "end": np.array([200], np.int64),
        "one": np.array([1], np.int64),
    }  # fmt: skip
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=1, end=2),
        helper.make_node("Sub", ["first", "s"], ["starts"]),
        helper.make_node("Add", ["end", "s"], ["ends"]),
        helper.make_node("Slice", ["table", "starts", "ends", "one"], ["rows"]),
        helper.make_node("ReduceMean", ["x"], ["mean"]),
        helper.make_node("Add", ["rows", "mean"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, "s", 4]}, {"y": [1, None, 4]}, held)
    inputs = [{"x": rng.standard_normal((1, s, 4)).astype(np.float32)} for s in (7, 60)]
    made = import_sizes(path, tmp_path / "w.bin", inputs)
    assert made.notes == ()
    for built, feeds in zip(made.models, inputs, strict=True):
        got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")["y"]
        wanted = native_session(path).run(["y"], feeds)[0]
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_windows_that_few_sizes_tell_apart_are_told_apart(tmp_path: Path) -> None:
    """As SegFormer reduces its maps: (h + 3) // 32, (h + 7) // 32 and (h + 15) // 32 places."""
    lines, made, last = [], [], "x"
    for n, (wide, stride, reduced) in enumerate([(7, 4, 8), (3, 2, 4), (3, 2, 2)]):
        pads, by = [wide // 2] * 4, [reduced] * 2
        lines.append(
            f"""a{n} = Conv<strides = {[stride] * 2}, pads = {pads}>({last}, k{wide})
            b{n} = Conv<strides = {by}>(a{n}, k{reduced})
            f{n} = Flatten<axis = 2>(b{n})
            g{n} = Flatten<axis = 2>(a{n})
            q{n} = Transpose<perm = [1, 0]>(g{n})
            s{n} = MatMul(q{n}, f{n})
            z{n} = ReduceSum<keepdims = 0>(s{n})"""
        )
        made.append(f"float z{n}")
        last = f"a{n}"
    kernels = ", ".join(
        f"float[1, 1, {k}, {k}] k{k} = {{{', '.join([str(1 / k)] * (k * k))}}}"
        for k in (2, 3, 4, 7, 8)
    )
    path, body = tmp_path / "m.onnx", "\n".join(lines)
    text = f"""
    <ir_version: 9, opset_import: ["" : 17]>
    g (float[1, 1, h, w] x) => ({", ".join(made)}) <{kernels}> {{ {body} }}
    """
    path.write_bytes(parser.parse_model(text).SerializeToString())
    inputs = [{"x": np.ones((1, 1, *size), np.float32)} for size in ((64, 64), (241, 151))]
    many = import_sizes(path, tmp_path / "w.bin", inputs)
    assert many.notes == ()
    for built, feeds in zip(many.models, inputs, strict=True):
        got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")
        for name, wanted in zip(got, native_session(path).run(list(got), feeds), strict=True):
            np.testing.assert_allclose(got[name], wanted, rtol=1e-4)
