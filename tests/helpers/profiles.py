"""Profiles for tests, without a page."""

from __future__ import annotations

from nnjit_studio.analysis.profile.memory import MeasuredMemory
from nnjit_studio.analysis.profile.records import ModelProfile, Steady
from nnjit_studio.analysis.profile.rows import step_rows
from nnjit_studio.model import (
    Graph,
    Node,
    Plan,
    PlanBuffer,
    PlanPort,
    PlanStep,
    TensorSpec,
    Workload,
)
from nnjit_studio.model.memory import forecast, live_bytes
from nnjit_studio.records import DeviceProfile, Inference

MATMUL = Workload("matmul", (8, 8, 8), "f32", flops=1024)
TRANSPOSE = Workload("transpose", (8, 8), "f32")
DEVICE = DeviceProfile("cpu", "embedded", peak_gflops={"simd128": 10.0}, threads=2)
BANDWIDTH = {1: 4.0, 2: 6.0}

_SPEC = TensorSpec("x", (8, 8), "f32")
GRAPH = Graph(
    "g",
    ("x",),
    ("y",),
    (
        Node("product", "matmul+bias", ("x", "x"), ("p",), MATMUL.key, ("MatMul", "Add")),
        Node("turn", "transpose", ("p",), ("t",), TRANSPOSE.key, ("Transpose",)),
        Node("second", "matmul", ("t", "x"), ("y",), MATMUL.key, ("MatMul_1",)),
    ),
    {name: TensorSpec(name, (8, 8), "f32") for name in ("x", "p", "t", "y")},
)
PLAN = Plan(
    "g",
    (PlanPort(_SPEC, 0),),
    (PlanPort(TensorSpec("y", (8, 8), "f32"), 3),),
    (
        *(PlanBuffer("arena", at, 256) for at in (0, 256, 512, 256)),
        PlanBuffer("weight", 0, 4096, (8, 100)),
    ),
    (
        PlanStep("call", MATMUL.key, (0, 4, 1)),
        PlanStep("call", TRANSPOSE.key, (1, 2)),
        PlanStep("call", MATMUL.key, (2, 4, 3)),
        PlanStep("return"),
    ),
    4096,
    768,
)


def profile(
    steps_ms: tuple[float, ...] = (1e-3, 2e-4, 2e-4),
    threads: tuple[int, ...] = (1, 1, 2),
    bandwidth: dict[int, float] | None = None,
    median_ms: float = 0.002,
) -> ModelProfile:
    """One of the small graph above."""
    spread, chunks = (1e-5, 0.0, 0.0), ((8, 0), (), (5, 3))
    times = Inference({}, (sum(steps_ms),), steps_ms, threads, spread, chunks)
    rows = step_rows(GRAPH, PLAN, (MATMUL, TRANSPOSE), times, DEVICE, bandwidth or {})
    return ModelProfile(
        model="g",
        target="embedded",
        user_agent="fake/1",
        threads=2,
        tier="simd128",
        peak_gflops=10.0,
        bandwidth_gbs=(bandwidth or {}).get(2),
        cold_ms={"reading the model": 5.0, "compiling kernels": 20.0, "first run": 1.0},
        warm=Steady(median_ms, median_ms, 1e-5, 9),
        memory=MeasuredMemory(forecast(PLAN), 65536, 2**20, 2**21, live_bytes(PLAN)),
        steps=tuple(rows),
    )
