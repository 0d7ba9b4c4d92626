"""Timed runs of the open model: warm first, then whole or by step."""

from __future__ import annotations

from nnjit_studio.records import Inference
from nnjit_studio.workbench.model import ModelOnPage

PROFILE_RUNS = 20
STEP_QUANTA = 20
"""A step is looked at for so many quanta of the page's timer: 5 % of it at most are lost."""
WARM_MS = 300.0
"""Runs before the timed ones: V8 compiles its fast code in the background meanwhile."""


def warm_up(model: ModelOnPage) -> None:
    """Run the model until its code is compiled for good."""
    once_ms = model.infer(1).runs_ms[0]
    model.infer(max(2, min(1000, round(WARM_MS / max(once_ms, 0.1)))))


def time_steps(model: ModelOnPage, runs: int) -> Inference:
    """Run the model step by step, each as long as the page's timer can tell its time."""
    quantum_ms = model.page.connect().timer_quantum_ms
    return model.infer(runs, profile=True, least_step_ms=STEP_QUANTA * quantum_ms)
