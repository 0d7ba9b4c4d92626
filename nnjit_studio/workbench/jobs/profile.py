"""Profile of the open model: its time, cold and warm, and its memory."""

from __future__ import annotations

from functools import partial

from nnjit_studio.analysis.profile.memory import MeasuredMemory, renderer_memory
from nnjit_studio.analysis.profile.records import ModelProfile, Steady
from nnjit_studio.analysis.profile.rows import step_rows
from nnjit_studio.model.memory import forecast, live_bytes
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.tuner.whole.machine import Machine
from nnjit_studio.workbench.jobs.timing import PROFILE_RUNS, time_steps, warm_up
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import import_model
from nnjit_studio.workbench.phases import DONE, Phases

FIRST_RUN = "first run"
PULSES = 5
"""Looks at the machine, right after the runs."""


def profile(
    model: ModelOnPage,
    on_phase: OnPhase = quiet,
    runs: int = PROFILE_RUNS,
    cold: bool = False,
    renderers_before: tuple[int, int] | None = None,
) -> ModelProfile:
    """Run the open model warm, whole and step by step, with the kernels that it runs now.

    Its cold start is in it where this is what ran the model first, and with ``cold``, which
    opens the file anew; and in later profiles of the model.

    Parameters
    ----------
    renderers_before
        Memory of the renderers ahead of the opening, as of
        :func:`~nnjit_studio.analysis.profile.renderer_memory`.

    Raises
    ------
    ModelError, UserError
        When no model is open, or it was cancelled.
    PageError, CompileError
    """
    with model.page.cancellable("Profiling", on_phase) as phase:
        if cold:
            _open_again(model, phase)
        ledger, model.cold = model.cold, None
        if ledger is not None and not model.registered:
            ledger.on_phase = phase
            _run_cold(model, ledger)
        elif not model.registered:
            model.register_best(phase)
        return _run_warm(model, runs, phase, renderers_before)


def _open_again(model: ModelOnPage, on_phase: OnPhase) -> None:
    """Open the model's file anew; what its session found stays."""
    chosen, events, phases = model.chosen, model.events, Phases(on_phase)
    opened = import_model(model.page, model.current.path, phases, model.feeds)
    model.load(opened, phases)
    model.adopt(opened, model.feeds)
    model.chosen, model.events = chosen, events
    model.began_cold(phases)


def _run_cold(model: ModelOnPage, phases: Phases) -> None:
    """Complete the phases of a model that was just opened: its kernels, then its first run."""
    model.register_best(phases)
    phases(DONE)
    phases.on_phase("running")
    phases.ms[FIRST_RUN] = model.infer(1).runs_ms[0]
    model.cold_ms = phases.ms


def _run_warm(
    model: ModelOnPage, runs: int, on_phase: OnPhase, before: tuple[int, int] | None
) -> ModelProfile:
    page, opened = model.page, model.current
    device = page.connect()
    tier = device.best_tier
    on_phase("warming up")
    warm_up(model)
    on_phase("timing whole runs")
    warm = model.infer(runs)
    on_phase("timing every step")
    steps = time_steps(model, runs)
    bandwidth = page.bandwidth_gbs()
    after = renderer_memory()  # ahead of the pulses, whose worker has memory of its own
    machine = Machine(partial(page.runner.pulse, tier), device.peak_gflops.get(tier))
    for _ in range(PULSES):
        machine.pulse()
    grown, most = (n - before[0] for n in after) if after and before else (None, None)
    return ModelProfile(
        model=opened.graph.name,
        target=device.target,
        user_agent=device.user_agent,
        threads=device.threads,
        tier=tier,
        peak_gflops=device.peak_gflops.get(tier, 0.0),
        bandwidth_gbs=bandwidth.get(device.threads),
        cold_ms=dict(model.cold_ms),
        warm=Steady.of(warm.runs_ms),
        memory=MeasuredMemory(
            forecast(opened.plan), page.runner.memory_bytes, grown, most, live_bytes(opened.plan)
        ),
        steps=tuple(
            step_rows(
                opened.graph,
                opened.plan,
                opened.workloads,
                steps,
                device,
                bandwidth,
                opened.mixed.devices if opened.mixed and device.gpu else (),
            )
        ),
        machine_rate=machine.level,
    )
