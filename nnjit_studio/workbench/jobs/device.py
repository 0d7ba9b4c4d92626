"""Experiments on the device that the page runs on."""

from __future__ import annotations

from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.doctor import microbench
from nnjit_studio.errors import UserError
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.page import SystemClock
from nnjit_studio.workbench.stored_best import known_device


def measure_device(model: ModelOnPage, on_phase: OnPhase = quiet) -> MeasuredDevice:
    """Run the device experiments in the page and store what they find, for sessions to come.

    A model that serves stops: it would be measured too. What the session
    knows of the device is replaced; primitives that all stored devices
    agree on are fixed from the next start on.

    Raises
    ------
    UserError
        When it was cancelled; nothing is stored then.
    PageError, CompileError
    """
    page = model.page
    with page.cancellable("Measuring the device", on_phase) as phase:
        phase("waiting for the page")
        probed = page.connect()
        if probed.gpu is not None:
            raise UserError(
                "The device experiments are kernels of the processor.",
                "Use --backend wasm; a GPU's limits are probed at every start.",
            )
        model.stop_serving()
        measured = microbench.measure_device(
            page.runner,
            page.process,
            probed,
            created=SystemClock().now_iso(),
            versions=page.versions(),
            on_phase=phase,
        )
    page.database.commit_device(measured)
    page.device = known_device(page.database, probed)
    return measured
