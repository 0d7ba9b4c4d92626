"""The numerical diff: which tensors are compared, what is said of each, what is worst."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from nnjit_studio.analysis import diff as diff_module
from nnjit_studio.analysis.diff import Placed, as_text, compare, details
from nnjit_studio.cli.run import unlike
from nnjit_studio.errors import UserError
from nnjit_studio.model import Graph, Node, Plan, PlanBuffer, PlanStep, TensorSpec
from nnjit_studio.records import Tap
from nnjit_studio.verdict.figures import largest_error
from nnjit_studio.workbench.jobs.diff import diff_tensors

SHAPE = (2, 3)
JOB = sys.modules[diff_tensors.__module__]
NAMES = ("x", "a", "b", "value 7", "y")
GRAPH = Graph(
    "g",
    ("x",),
    ("y",),
    (
        Node("first", "matmul+bias", ("x",), ("a",), "w", ("MatMul", "Add")),
        Node("second", "split", ("a",), ("b", "value 7"), "w", ("Split",)),
        Node("third", "exp", ("b",), ("y",), "w", ("Exp",)),
    ),
    {name: TensorSpec(name, SHAPE, "f32") for name in NAMES},
)
PLAN = Plan(
    "g",
    (),
    (),
    tuple(PlanBuffer("arena", 64 * i, 64) for i in range(6)),
    (
        PlanStep("call", "w", (0, 1)),
        PlanStep("append", args=(0, 1)),
        PlanStep("call", "w", (1, 2, 3, 5)),
        PlanStep("call", "w", (2, 4)),
        PlanStep("return"),
    ),
    0,
    384,
)
PLAN_OF_ONE = replace(PLAN, steps=(PLAN.steps[0], PLAN.steps[-1]))
ONNX = [
    ("MatMul", ("m",)),
    ("Add", ("a",)),
    ("Split", ("b", "c")),
    ("Exp", ("y",)),
    ("Shape", ("s",)),
]


class Bench:
    """Buffers hold their own number everywhere; ONNX Runtime agrees, but for ``wrong``."""

    current = SimpleNamespace(graph=GRAPH, plan=PLAN)
    feeds: ClassVar = {}
    nodes = ONNX

    def __init__(self, wrong: dict[str, float] | None = None) -> None:
        self.wrong = wrong or {}
        self.page = SimpleNamespace(process=self)
        self.taps: list[Sequence[Tap]] = []

    def tap(self, taps: Sequence[Tap]) -> list[bytes]:
        self.taps.append(taps)
        whole = [np.full(16, t.buffer, np.float32).tobytes() for t in taps]
        return [data[t.offset : t.offset + t.nbytes] for t, data in zip(taps, whole, strict=True)]

    def reference_tensors(self, feeds: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        buffers = {"a": 1, "b": 2, "y": 4}
        return {n: np.full((3, 2), buffers[n] + self.wrong.get(n, 0.0), np.float32) for n in names}


def diff_model(model: Bench, name: str = "") -> diff_module.Diff:
    return diff_tensors(model, model.nodes, name)  # type: ignore[arg-type]


def test_each_tensor_is_copied_right_after_its_step() -> None:
    bench = Bench()
    found = diff_model(bench)
    assert [t.tensor for t in found.tensors] == ["y", "a", "b"]
    assert [(t.step, t.buffer, t.nbytes) for taps in bench.taps for t in taps] == [
        (0, 1, 24),
        (2, 2, 24),
        (3, 4, 24),
    ]
    assert not found.bad
    assert "All 3 tensors are within 0.001" in as_text(found, 10)


def test_tensors_of_one_side_are_named_with_the_reason() -> None:
    missing = {m.tensor: (m.node, m.why) for m in diff_model(Bench()).missing}
    assert missing["m"] == ("MatMul", "fused into step 'first'")
    assert missing["c"] == ("Split", "fused into step 'second'")
    assert missing["s"] == ("Shape", "a view or a constant: no step computes it")
    assert missing["value 7"][0] == "second"
    assert set(missing) == {"m", "c", "s", "value 7"}
    assert "2 not compared: fused into a step" in as_text(diff_model(Bench()), 10)


def test_worst_first_and_the_first_bad_step_in_order() -> None:
    found = diff_model(Bench({"b": 0.5, "y": 4.0, "a": 1e-5}))
    assert [t.tensor for t in found.tensors] == ["y", "b", "a"]
    assert [t.tensor for t in found.bad] == ["b", "y"]
    assert found.to_json()["first_bad_node"] == "second"
    text = as_text(found, 1)
    assert "the first in order of execution is 'b'" in text
    assert "and 2 more" in text
    assert found.tensors[0].max_rel == pytest.approx(4.0 / 8.0)


class Amplifying(Bench):
    """ONNX Runtime agrees with step ``third`` once it gets the page's own ``b``."""

    def reference_tensors(self, feeds: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        fed = "b" in feeds
        if fed:
            assert feeds["b"].shape == (3, 2) and (feeds["b"] == 2).all()
        right = Bench(self.wrong if not fed else {})
        return right.reference_tensors(feeds, names)


def test_a_step_whose_inputs_differ_as_much_is_not_bad_and_outputs_come_first() -> None:
    found = diff_model(Amplifying({"b": 1e-3, "y": 0.02}))
    assert [(t.tensor, t.output, t.inherited) for t in found.tensors] == [
        ("y", True, True), ("b", False, False), ("a", False, False),
    ]  # fmt: skip
    assert not found.bad and found.to_json()["bad"] == 0
    assert "2 of 3 tensors are within 0.001" in as_text(found, 10)
    assert "output y" in as_text(found, 10)
    assert [t.tensor for t in diff_model(Bench({"b": 1e-3, "y": 0.02})).bad] == ["y"]


def test_errors_are_measured_in_units_of_what_rounding_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(JOB, "NEIGHBOURS", 2)

    class Shaky(Bench):
        """``y`` is a small difference of large numbers: it reacts 1000 times as much as others."""

        feeds: ClassVar = {"x": np.ones(SHAPE, np.float32)}

        def reference_tensors(self, feeds: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
            moved = float(np.abs(np.asarray(feeds["x"]) - 1).max())
            reacts = {"a": 1.0, "b": 1.0, "y": self.conditioning}
            held = super().reference_tensors(feeds, names)
            return {n: held[n] + np.float32(moved * reacts[n]) for n in names}

    for conditioning, tensors in ((5e4, []), (1.0, ["y"])):
        bench = Shaky({"a": 3e-6, "b": 3e-6, "y": 0.02})
        monkeypatch.setattr(Shaky, "conditioning", conditioning, raising=False)
        monkeypatch.setattr(JOB, "_agrees", lambda *given: False)
        assert [t.tensor for t in diff_model(bench).bad] == tensors


def test_one_name_selects_a_tensor_a_step_or_an_onnx_node() -> None:
    for name in ("a", "first", "Add"):
        assert [t.tensor for t in diff_model(Bench(), name).tensors] == ["a"]
    fused = diff_model(Bench(), "m")
    assert not fused.tensors
    assert "fused into step 'first'" in details(fused)
    with pytest.raises(UserError, match="no tensor or node 'z'"):
        diff_model(Bench(), "z")


def test_a_model_without_a_common_tensor_is_not_called_right() -> None:
    class Renamed(Bench):
        nodes: ClassVar = [("Other", ("o",))]

    with pytest.raises(UserError, match="nothing can be compared"):
        diff_model(Renamed())
    assert [m.tensor for m in diff_model(Renamed(), "Other").missing] == ["o"]


def test_large_tensors_come_in_parts_and_many_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[diff_tensors.__module__], "PASS_BYTES", 16)
    bench = Bench()
    assert not diff_model(bench).bad
    assert [[(t.offset, t.nbytes) for t in taps] for taps in bench.taps][:2] == [
        [(0, 16)],
        [(16, 8)],
    ]
    monkeypatch.setattr(sys.modules[diff_tensors.__module__], "PASS_BYTES", 48)
    bench = Bench()
    diff_model(bench)
    assert [len(taps) for taps in bench.taps] == [2, 1]


def test_tensors_that_a_merge_put_side_by_side_are_compared_so() -> None:
    graph = Graph(
        "g",
        ("x",),
        ("q|k",),
        (Node("qk", "matmul", ("x",), ("q|k",), "w", ("Q", "K")),),
        {n: TensorSpec(n, SHAPE, "f32") for n in ("x", "q|k")},
    )

    class Merged(Bench):
        current = SimpleNamespace(graph=graph, plan=PLAN_OF_ONE)
        nodes: ClassVar = [("Q", ("q",)), ("K", ("k",))]

        def tap(self, taps: Sequence[Tap]) -> list[bytes]:
            return [np.array([[1, 2, 9], [3, 4, 8]], np.float32).tobytes()]

        def reference_tensors(self, feeds: Any, names: Sequence[str]) -> dict[str, NDArray[Any]]:
            parts = {"q": np.array([[1, 2], [3, 4]]), "k": np.array([[[9], [7]]])}
            return {n: parts[n] for n in names}

    for name in ("", "k", "Q"):
        (found,) = diff_model(Merged(), name).tensors
        assert (found.tensor, found.max_abs, found.worst) == ("q|k", 1.0, (1, 2))
    assert not diff_model(Merged()).missing


def row(got: list[float], expected: list[float]) -> diff_module.TensorDiff:
    placed = Placed(TensorSpec("t", (len(got),), "f32"), GRAPH.nodes[0], 0, 0, 0)
    return compare(placed, np.array(got, np.float32), np.array(expected, np.float32))


def test_the_numbers_of_a_row() -> None:
    found = row([1.0, 2.0, -8.0], [1.0, 3.0, -8.0])
    assert (found.max_abs, found.scale, found.worst) == (1.0, 8.0, (1,))
    assert (found.got, found.expected) == (2.0, 3.0)
    assert found.max_rel == pytest.approx(1 / 8)
    assert found.cosine == pytest.approx(71 / np.sqrt(69 * 74))


def test_nan_and_infinity() -> None:
    nan, inf = np.nan, np.inf
    same = row([nan, inf, 1.0], [nan, inf, 1.0])
    assert (same.max_abs, same.nans, same.infs) == (0.0, (1, 1), (1, 1))
    for got, expected in (([nan], [1.0]), ([1.0], [nan]), ([inf], [-inf]), ([inf], [1.0])):
        assert row(got, expected).max_rel == inf
    found = diff_module.Diff("g", 1e-3, (row([nan], [1.0]),), ())
    assert found.bad
    assert found.to_json()["tensors"][0]["max_rel"] == "inf"
    assert row([0.0], [0.0]).cosine == 1.0
    assert row([0.0], [1.0]).cosine == 0.0


def test_the_outputs_of_a_run_are_refused_where_one_is_wrong() -> None:
    wanted = np.array([[1.0, -8.0], [np.nan, np.inf]])
    assert largest_error(wanted.copy(), wanted) == 0.0
    assert largest_error(wanted + np.array([[0.004, 0], [0, 0]]), wanted) == pytest.approx(0.0005)
    for other in (wanted.ravel(), np.nan_to_num(wanted), wanted[:1]):
        assert largest_error(other, wanted) == np.inf
    assert unlike([{"y": 1e-3}, {"y": 0.0}]) is None
    for bad in (2e-3, np.inf, np.nan):
        assert "to 0.001: z." in str(unlike([{"y": 0.0, "z": 0.0}, {"y": 0.0, "z": bad}]))
