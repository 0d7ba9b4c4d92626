"""Constants that repeat along open axes are stored once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, parser
from onnx_models import save

from nnjit_studio.compiler.any_size.constants import Prefix, whole_tables
from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.repeats import reading_once
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Load, Program, Stage, Store, Var
from nnjit_studio.errors import ModelError
from nnjit_studio.records import TIERS

node = helper.make_node


def expanded(folder: Path) -> Path:
    """A table of [3, 1] that is folded at the size of each import: to [batch, 3, n]."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Expand", ["w", "shape"], ["mask"]),
        node("Mul", ["x", "mask"], ["a"]),
        node("Concat", ["a", "mask"], ["y"], axis=1),
    ]
    return save(
        folder / "m.onnx",
        nodes,
        {"x": ["batch", 3, "n"]},
        {"y": [None, 6, None]},
        {"w": np.array([[1.5], [-2.0], [0.25]], np.float32)},
    )


def test_a_constant_that_repeats_along_open_axes_is_stored_once(tmp_path: Path) -> None:
    path, weights = expanded(tmp_path), tmp_path / "w.bin"
    rng = np.random.default_rng(0)
    made = import_any(path, weights, {"x": np.ones((2, 3, 9), np.float32)})
    assert made is not None and made.notes == ()
    assert {d.name: d.low for d in made.plan.dims} == {"batch": 1, "n": 1}
    assert made.plan.weights_bytes <= 64
    session = onnxruntime.InferenceSession(path)
    for tier in TIERS:
        runner = OpenRunner(made.plan, made.kernels, weights, tier)
        for batch, n in ((1, 1), (1, 7), (3, 1), (2, 4), (5, 33), (17, 100)):
            x = rng.standard_normal((batch, 3, n)).astype(np.float32)
            (expected,) = session.run(None, {"x": x})
            got = runner.run({"batch": batch, "n": n}, {"x": x})["y"]
            np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=f"{batch} {n}")


def test_a_table_is_not_taken_from_an_import_of_other_steps(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["" : 17]> g (float[2, 4] x) => (float[2, 4] y) {BODY}'
    held, builts = "w = Constant<value_floats = [1.0, 2.0, 3.0, 4.0]>()", []
    for name, end in (("a", "y = Mul(x, w)"), ("b", "s = Softmax(x) y = Mul(s, w)")):
        path, weights = tmp_path / f"{name}.onnx", tmp_path / f"{name}.bin"
        onnx.save(parser.parse_model(text.replace("BODY", f"{held} {end}")), path)
        builts.append(import_model(path, weights))
    made = {0: Prefix(np.ones((1, 4), np.float32), 0)}
    with pytest.raises(ModelError, match="steps differ from size to size"):
        whole_tables(made, *builts, tmp_path / "b.bin")


@pytest.mark.parametrize("base", [(1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 5), (2, 1, 5), (2, 3, 5)])
def test_indices_leave_repeated_axes_out(base: tuple[int, ...]) -> None:
    shape = (2, 3, 5)
    axes = tuple(Axis(name, n) for name, n in zip("abc", shape, strict=True))
    place = Var("a") * 15 + Var("b") * 5 + Var("c")
    copy = Store("out", place, Load("in", place))
    buffers = (Buffer("in", "f32", shape, "input", True), Buffer("out", "f32", shape, "output"))
    program = reading_once(Program("p", buffers, (Stage("s", axes, (copy,)),)), {0: base})
    assert program.buffers[0].shape == base
    load = program.stages[0].body[0].value
    assert isinstance(load, Load) and "floor" not in repr(load.index)
    for at in np.ndindex(*shape):
        wanted = np.ravel_multi_index([min(i, n - 1) for i, n in zip(at, base, strict=True)], base)
        assert _value(load.index, dict(zip("abc", at, strict=True))) == wanted


def _value(expr: object, at: dict[str, int]) -> int:
    """Of a sum of multiples."""
    if isinstance(expr, Var):
        return at[expr.name]
    if not hasattr(expr, "op"):
        return int(expr.value)  # type: ignore[attr-defined]
    a, b = _value(expr.a, at), _value(expr.b, at)  # type: ignore[attr-defined]
    return a + b if expr.op == "add" else a * b
