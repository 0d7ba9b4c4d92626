"""A list of advice with every kind of row, as a job tells it at the end."""

from __future__ import annotations

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.errors import judge
from nnjit_studio.advice.records import (
    IMPOSSIBLE,
    MEASURED,
    Advice,
    Measurement,
    OutputError,
    Row,
)
from nnjit_studio.model.recipe import Recipe
from nnjit_studio.verdict.figures import Interval


def measured(ms, ratio, error=1e-6, megabytes=20) -> Measurement:
    """Of a row that is so many times as fast as 20 ms."""
    return Measurement(
        Interval(ms, 0.98 * ms, 1.02 * ms), Interval(20.0, 19.8, 20.2),
        Interval(ratio, ratio - 0.04, ratio + 0.04), 24, 0.99, 24.4, megabytes * 10**6,
        (OutputError("y", error, 0.9999),),
    )  # fmt: skip


def row(name, title, apply, found, asks="") -> Row:
    guard = judge(found.outputs, 1, 1e-2)
    return Row(name, title, apply, asks, MEASURED, measured=found, guard=guard)


ADVICE = Advice(
    "m.onnx", "/m.onnx",
    (
        row(
            "threads",
            "2 threads instead of 1",
            Apply(threads=2),
            measured(11.0, 1.8),
            "Two headers.",
        ),
        row("f16-weights", "Weights in f16", Apply(half_weights=True), measured(20, 1.0, 3e-4, 10)),
        row("direct", "Without tiles", Apply(direct=True), measured(16.0, 1.25)),
        row("4-bit", "4-bit weights", Apply(ways={"q": "4"}), measured(10.0, 2.0, 3e-2)),
        row("int8", "8-bit", Apply(recipe=Recipe("int8-dynamic")), measured(18.0, 1.1)),
        row("cut", "One output", Apply(recipe=Recipe("outputs")), measured(19.0, 1.05)),
        Row("webgpu", "WebGPU", Apply(backend="webgpu"), state=IMPOSSIBLE, problem="No adapter."),
    ),
    base=measured(20.0, 1.0),
)  # fmt: skip
SET = Row("in-use", "All of them", Apply())
"""Rows in use, before they are measured."""
