"""WGSL kernels of any size: texts unified by their numbers, which are read from a block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import save

from nnjit_studio.compiler.any_size import on_gpu
from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.kernels import wgsl
from nnjit_studio.compiler.any_size.kernels.gpu_guess import usual_guesses
from nnjit_studio.compiler.any_size.kernels.wgsl import any_size_document
from nnjit_studio.compiler.any_size.kernels.wgsl_text import (
    SIZES,
    skeleton_of,
    tokens_of,
    with_sizes,
)
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Const,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.errors import ModelError
from nnjit_studio.model.open_plan import OpenDocument, Scalar
from nnjit_studio.model.size import Dim, size
from nnjit_studio.records import GPU_TIERS, Kernel

N = Dim("n", 1, 1 << 20)
n = size(N)


def unary(extent: int, width: int = 10, op: str = "exp") -> Program:
    """y[n, width] = op(x[n, width])"""
    buffers = (
        Buffer("x", "f32", (extent, width), "input"),
        Buffer("y", "f32", (extent, width), "output"),
    )
    index = Var("i") * width + Var("j")
    axes = (Axis("i", extent), Axis("j", width))
    return Program(
        "p", buffers, (Stage("s", axes, (Store("y", index, Call(op, (Load("x", index),))),)),)
    )


def test_numbers_are_found_with_their_types() -> None:
    code = "let v1 = a0[4u] + vec4<f32>(0.5f, 1e-3) + f32(7i) * 12 + 0x1fu; // x.xyz"
    assert [(t.kind, t.value) for t in tokens_of(code)] == [
        ("u", 4),
        ("f", 0.5),
        ("f", pytest.approx(1e-3)),
        ("i", 7),
        ("i", 12),
        ("u", 31),
    ]
    assert skeleton_of("a0[4u] + 1.5f") == "a0[#u] + #f"


def test_a_number_is_read_as_what_it_was() -> None:
    code = "enable subgroups;\nlet a = 4u + u32(5);\nlet b = 0.5;\n"
    scalars = (Scalar("int", n), Scalar("int", n + 1), Scalar("inverse", n))
    text = with_sizes(code, scalars, scalars, 3, "k")
    head, block, *body = text.splitlines()
    assert head == "enable subgroups;"
    assert block == f"@group(0) @binding(3) var<uniform> {SIZES}: array<vec4<u32>, 1>;"
    assert body == [
        f"let a = {SIZES}[0].x + u32(i32({SIZES}[0].y));",
        f"let b = bitcast<f32>({SIZES}[0].z);",
    ]
    assert with_sizes(code, (None, None, None), (), 3, "k") == code


@pytest.mark.parametrize(
    "code", ["var<workgroup> row: array<f32, 8>;", "@workgroup_size(8)", "const c = 8u;"]
)
def test_a_number_that_the_gpu_has_to_know_before_is_refused(code: str) -> None:
    with pytest.raises(ModelError, match="k has a fixed number that changes with sizes"):
        with_sizes(code, (Scalar("int", n),), (Scalar("int", n),), 1, "k")


@pytest.mark.parametrize("width", [1, 10, 384])
def test_counts_of_workgroups_cover_all_points_of_any_size(width: int) -> None:
    kernel = any_size_document("k", lambda s: unary(s["n"], width), [n], [N], [n], {"n": 40})
    document = OpenDocument.from_json(json.loads(kernel.data), (N,))
    (dispatch,) = document.dispatches
    assert dispatch.bindings == ("a0", "a1", "z") and dispatch.access[-1] == "uniform"
    threads = int(dispatch.code.partition("@workgroup_size(")[2].partition(")")[0])
    for extent in (1, 3, 4, 63, 64, 65, 1000, 4096, 700_001):
        x, y, z = document.at({"n": extent})["dispatches"][0]["workgroups"]
        assert z == 1 and x <= 65535
        # A thread takes at most four points, and no row of workgroups is spare.
        assert x * y * threads * 4 >= extent * width > (y - 1) * 65535 * threads
    assert document.to_bytes() == kernel.data


@pytest.mark.parametrize("refusal", ["", "0:exp has no WGSL kernel for all sizes (why)"])
def test_all_kernels_of_a_model_are_wgsl_too_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    def refuse(*_: object) -> Kernel:
        raise refused(refusal)

    if refusal:
        monkeypatch.setattr(on_gpu, "any_size_document", refuse)
    ports = ([helper.make_tensor_value_info(p, TensorProto.FLOAT, ["n", 10])] for p in "xy")
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "exp", *ports)
    file = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), file)
    made = import_any(file, tmp_path / "w.bin", webgpu=True)
    assert made is not None
    names = {k.workload for k in made.kernels if k.tier in GPU_TIERS}
    assert names == (set() if refusal else set(made.plan.kernels))
    assert made.notes == ((f"The bundle has Wasm kernels alone: {refusal}.",) if refusal else ())


def test_a_kernel_that_changes_in_more_than_numbers_is_refused() -> None:
    at = lambda s: unary(s["n"], op="exp" if s["n"] % 3 else "tanh")  # noqa: E731
    with pytest.raises(ModelError, match=r"k has no WGSL kernel for all sizes \(.*more than numb"):
        any_size_document("k", at, [n], [N], [n], {"n": 40})


def product(rows: int, depth: int = 384, columns: int = 384) -> Program:
    """y[rows, columns] = x[rows, depth] w[depth, columns]"""
    shapes = {"x": (rows, depth), "w": (depth, columns), "y": (rows, columns)}
    buffers = tuple(
        Buffer(name, "f32", shape, "output" if name == "y" else "input")
        for name, shape in shapes.items()
    )
    i, j, k = map(Var, "ijk")
    at = i * columns + j
    term = Load("x", i * depth + k) * Load("w", k * columns + j)
    axes = (Axis("i", rows), Axis("j", columns), Axis("k", depth, "reduce"))
    zero = (Store("y", at, Const(0.0, "f32")),)
    return Program("p", buffers, (Stage("s", axes, (Store("y", at, Load("y", at) + term),), zero),))


def test_a_product_has_settings_that_suit_usual_sizes() -> None:
    """At 2000 rows no reduction is split, at 64 eight parts of it keep a GPU busy."""
    at = lambda s: product(s["n"])  # noqa: E731
    first, large, *_ = usual_guesses(at, [N], {"n": 40}, product(2000))
    assert first.split == 8 and large.split == 1
    (alone,) = usual_guesses(at, [Dim("n", 1000, 3000)], {"n": 2000}, product(2000))
    assert alone == large


@pytest.mark.parametrize(("depth", "columns"), [(384, 384), (1536, 100)])
def test_parts_of_a_product_are_added_by_workgroups_enough(depth: int, columns: int) -> None:
    at = lambda s: product(s["n"], depth, columns)  # noqa: E731
    kernel = any_size_document("k", at, [n], [N], [n], {"n": 40})
    document = OpenDocument.from_json(json.loads(kernel.data), (N,))
    assert len(document.dispatches) == 2
    for rows in (*range(1, 140), 1000, 4096):
        (scratch,) = document.at({"n": rows})["scratch"]
        first, last = (d["workgroups"] for d in document.at({"n": rows})["dispatches"])
        assert scratch == 4 * first[2] * rows * columns
        assert 64 * last[0] * last[1] * 4 >= rows * columns
        # A second row of workgroups would begin behind the first one.
        if last[1] > 1:
            assert 64 * last[0] in {scalar.at({"n": rows}) for scalar in document.sizes}


def test_fewer_workgroups_than_another_size_has_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wgsl._Unifier, "_count", lambda *_: size(1))
    with pytest.raises(ModelError, match=r"k has no WGSL kernel .*too few workgroups at n"):
        any_size_document("k", lambda s: unary(s["n"]), [n], [N], [n], {"n": 40})


def test_the_place_behind_a_number_of_rows_is_not_rounded(tmp_path: Path) -> None:
    """Of 512 (n + 1) all samples at odd sizes are multiples of 1024, others are not."""
    width = 512
    shapes = {"w": (1, 4 * width, 8), "r": (1, 4 * width, width)}
    node = helper.make_node("LSTM", ["x", *shapes], ["y"], hidden_size=width)
    file = save(
        tmp_path / "m.onnx",
        [node],
        {"x": ["n", 1, 8]},
        {"y": ["n", 1, 1, width]},
        {name: np.ones(shape, np.float32) for name, shape in shapes.items()},
    )
    made = import_any(file, tmp_path / "w.bin", webgpu=True)
    assert made is not None
    texts = [json.loads(k.data) for k in made.kernels if k.tier in GPU_TIERS]
    (layer,) = (t for t in texts if any("tanh" in d["code"] for d in t["dispatches"]))
    document = OpenDocument.from_json(layer, made.plan.dims)
    for tokens in (2, 7, 64):
        numbers = {scalar.at({"n": tokens}) for scalar in document.sizes}
        assert numbers == {tokens, width * (tokens + 1)}


def flags(extent: int) -> Program:
    """y[extent] = x[extent] <= 5, whose results are bytes, four in a word"""
    index = Var("i")
    value = Binary("le", Load("x", index), Const(5, "i32"))
    buffers = (Buffer("x", "i32", (extent,), "input"), Buffer("y", "bool", (extent,), "output"))
    stage = Stage("s", (Axis("i", extent),), (Store("y", index, value),))
    return Program("flags", buffers, (stage,))


def test_bytes_of_a_past_and_one_more_are_all_written() -> None:
    """Words of four bytes of n + 1: as many as of n, but where four divide n."""
    more = n + 1
    made = any_size_document(
        "k", lambda sizes: flags(sizes["n"] + 1), (more,), (N,), (more,), {"n": 9}
    )
    document = OpenDocument.from_json(json.loads(made.data), (N,))
    for extent in (4, 5, 6, 7, 40, 41):
        words = -(-(extent + 1) // 4)
        assert words in [scalar.at({"n": extent}) for scalar in document.sizes], extent


def turned(places: int) -> Program:
    """y[8, places] = x[places, 8], of a map whose height and width are one axis"""
    buffers = (Buffer("x", "f32", (places, 8), "input"), Buffer("y", "f32", (8, places), "output"))
    i, j = Var("i"), Var("j")
    axes = (Axis("i", 8), Axis("j", places))
    stage = Stage("s", axes, (Store("y", i * places + j, Load("x", j * 8 + i)),))
    return Program("turned", buffers, (stage,))


def test_no_thread_is_one_too_many_where_two_sizes_are_one_axis() -> None:
    """With 4 places each, ``h w // 4 + 1`` threads are right at all odd sizes; where 4 divides
    ``h w``, the last one writes past the end of its row."""
    dims = Dim("h", 1, 1 << 10), Dim("w", 1, 1 << 10)
    sizes = tuple(map(size, dims))
    made = any_size_document(
        "k", lambda s: turned(s["h"] * s["w"]), sizes, dims, sizes, {"h": 9, "w": 7}
    )
    document = OpenDocument.from_json(json.loads(made.data), dims)
    for h, w in ((4, 4), (5, 7), (6, 5), (2, 6), (32, 48)):
        parts = -(-h * w // 4)
        numbers = {scalar.at({"h": h, "w": w}) for scalar in document.sizes}
        assert numbers == {8 * parts, parts, h * w}, (h, w)


@pytest.mark.parametrize("op", ["ReduceMax", "Transpose"])
def test_rows_that_threads_take_a_few_of_are_counted_over_two_sizes(
    tmp_path: Path, op: str
) -> None:
    """As of what is quantised by its rows, and of maps with their channels last."""
    kind: dict[str, Any] = {"perm": [0, 3, 1, 2]} if op == "Transpose" else {"axes": [3]}
    ports = {"x": ["n", "h", "w", 8]}, {"y": ["a", "b", "c", "d"]}
    file = save(tmp_path / "m.onnx", [helper.make_node(op, ["x"], ["y"], **kind)], *ports, {})
    made = import_any(file, tmp_path / "w.bin", webgpu=True)
    assert made is not None and made.notes == ()
