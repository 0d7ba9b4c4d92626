"""A profile on threads: rows and trace say how many ran each step."""

from __future__ import annotations

import numpy as np
import pytest

from nnjit_studio.graph import Graph, Node, Plan, PlanStep, TensorSpec, Workload
from nnjit_studio.profile import step_rows, trace_events
from nnjit_studio.space.records import DeviceProfile

WORKLOAD = Workload("matmul", (8, 8, 8), "f32", flops=1000)
DEVICE = DeviceProfile("cpu", "embedded", peak_gflops={"simd128": 10.0}, threads=2)


def rows(steps_threads: tuple[int, ...]) -> list[dict[str, object]]:
    spec = TensorSpec("x", (8, 8), "f32")
    node = Node("n", "matmul", ("x",), ("x",), WORKLOAD.key)
    graph = Graph("g", ("x",), ("x",), (node, node), {"x": spec})
    steps = (PlanStep("call", WORKLOAD.key), PlanStep("call", WORKLOAD.key), PlanStep("return"))
    plan = Plan("g", (), (), (), steps, 0, 0)
    return step_rows(graph, plan, (WORKLOAD,), (1e-4, 1e-4), DEVICE, steps_threads)


def test_percent_of_peak_counts_the_threads_that_ran() -> None:
    percents = [row["percent_of_peak"] for row in rows((1, 2))]
    np.testing.assert_allclose(percents, [100.0, 50.0])
    assert [row["threads"] for row in rows(())] == [1, 1]


def test_the_trace_has_a_track_for_each_thread() -> None:
    events = trace_events({"model": "g", "threads": 2, "steps": rows((1, 2))})["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {1: "engine worker", 2: "helper 1"}
    spans = [(e["tid"], e["ts"]) for e in events if e["ph"] == "X"]
    assert spans == [(1, 0.0), (1, pytest.approx(0.1)), (2, pytest.approx(0.1))]
