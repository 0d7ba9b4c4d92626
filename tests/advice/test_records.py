"""Rows of advice are ranked, judged and refused by what was measured of them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.errors import judge, output_errors
from nnjit_studio.advice.records import (
    BROKEN,
    IMPOSSIBLE,
    KEPT,
    MEASURED,
    MEASURING,
    UNJUDGED,
    WAITING,
    Advice,
    Guard,
    Measurement,
    OutputError,
    Row,
    ranked,
    stopped,
)
from nnjit_studio.advice.text import table
from nnjit_studio.model import GivenShapes, ImportOptions
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.verdict.figures import Interval

MS = Interval(2.0, 1.9, 2.1)


def row(name: str, ratio: float, guard: str = KEPT, asks: str = "") -> Row:
    found = Measurement(
        MS, MS, Interval(ratio, 0.95 * ratio, 1.05 * ratio), 24, 1.0, 3.0, 5000,
        (OutputError("y", 1e-4, 0.999),), "/layer (2.0e-04)",
    )  # fmt: skip
    return Row(name, name, Apply(), asks, MEASURED, measured=found, guard=Guard(guard, 1e-2, "No."))


FAST, SAME, SLOW = row("fast", 2.0), row("same", 1.01), row("slow", 0.5)
ASKS, WRONG = row("asks", 3.0, asks="Headers are sent."), row("wrong", 4.0, BROKEN)
NOT_HERE = Row("gpu", "WebGPU", Apply(), state=IMPOSSIBLE, problem="There is no adapter.")
ROWS = (NOT_HERE, SLOW, WRONG, SAME, ASKS, FAST)
ADVICE = Advice("m.onnx", "/m.onnx", ROWS, base=FAST.measured)


def test_what_may_be_applied_stands_first() -> None:
    assert [r.name for r in ranked(ROWS)] == ["fast", "same", "slow", "asks", "wrong", "gpu"]
    assert ADVICE.best is FAST
    assert replace(ADVICE, rows=(SAME, SLOW, WRONG, ASKS)).best is None
    assert [r.outcome for r in (FAST, SAME, SLOW)] == ["faster", "not told apart", "slower"]
    assert WRONG.refusal and NOT_HERE.refusal and not FAST.refusal


def test_of_a_cancelled_list_the_finished_rows_stay() -> None:
    left = stopped(replace(ADVICE, rows=(FAST, replace(SLOW, state=MEASURING)), phase="measuring"))
    assert [row.state for row in left.rows] == [MEASURED, WAITING]
    assert left.rows[1].measured is None and left.rows[1].refusal
    assert (
        "Stopped" in table(left)
        and "not measured" in table(left)
        and "It was not measured." in table(left)
    )


def test_a_busy_machine_has_no_ratio() -> None:
    assert FAST.measured
    busy = replace(FAST, measured=replace(FAST.measured, rate=0.4))
    assert busy.outcome == "" and replace(ADVICE, rows=(busy,)).best is None
    assert json.loads(json.dumps(busy.to_json()))["measured"]["ratio"] is None
    assert "machine too busy" in table(replace(ADVICE, rows=(busy,)))


def test_json_and_table_have_every_row() -> None:
    document = json.loads(json.dumps(ADVICE.to_json(), allow_nan=False))
    assert [r["name"] for r in document["rows"]] == [r.name for r in ranked(ROWS)]
    assert document["best"] == "fast"
    text = table(ADVICE)
    assert all(r.name in text for r in ROWS) and "There is no adapter." in text


def test_the_guard_wants_every_output_and_its_threshold() -> None:
    reference = {"a": np.array([1.0, -4.0]), "b": np.array([1.0, np.inf])}
    found = output_errors({"a": np.array([1.0, -3.8]), "b": np.array([1.0, np.inf])}, reference)
    assert [round(o.max_rel, 3) for o in found] == [0.05, 0.0]
    assert found[1].cosine == 1.0
    measured = Measurement(MS, MS, outputs=found, worst_layer="/conv (5.0e-02)")
    broken = judge(found, 2, 1e-2, measured.where)
    assert broken.state == BROKEN and "/conv" in broken.reason and "'a'" in broken.reason
    assert judge(found, 2, 0.1).state == KEPT
    assert judge(found, 3, 0.1).state == UNJUDGED
    odd = output_errors({"a": np.array([1.0, np.nan])}, reference)
    assert odd[0].max_rel == float("inf") and judge(odd, 1, 9).state


def test_changes_are_made_to_what_the_user_has() -> None:
    given = ImportOptions(GivenShapes({"n": 4}), half_weights=False)
    same = Apply(threads=4).importing(given)
    assert same == given
    changed = Apply(half_weights=True, direct=True, ways={"qkv": "off"}).importing(given)
    assert changed.half_weights and not changed.winograd and changed.ways == {"qkv": "off"}
    assert Apply(shapes={"x": (1, 64)}).importing(given).shapes == GivenShapes({}, {"x": (1, 64)})
    target = Apply(threads=4, backend="webgpu").target(TargetOptions(threads=2))
    assert (target.threads, target.backend) == (4, "webgpu")
    options = Apply(half_weights=True, threads=2, shapes={"x": (1, 64)}).options
    assert options == ("--shape=x=1,64", "--weights=f16", "--threads=2")
