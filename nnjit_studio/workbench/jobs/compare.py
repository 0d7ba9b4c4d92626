"""The open model on Wasm and on WebGPU: changed from one to the other, and compared."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnjit_studio.analysis.backends import BackendComparison, Side, StepPair, ratio
from nnjit_studio.analysis.profile.records import Steady
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.model import Plan, PlanPort, PlanStep
from nnjit_studio.model.placement import CopyCost, Device
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.workbench.divided import StepTimes, divided, remember
from nnjit_studio.workbench.jobs.timing import PROFILE_RUNS, time_steps, warm_up
from nnjit_studio.workbench.model import ModelOnPage

LEAST_COPY_MS = 0.1
UPLOAD, READBACK = "upload", "readback"


def use_backend(model: ModelOnPage, backend: Backend, on_phase: OnPhase = quiet) -> DeviceProfile:
    """Run the open model, and all later ones, on another backend; if that fails, on the old.

    A model that serves stops; best known kernels are registered when they are needed.

    Raises
    ------
    TargetError, PageError
        When the page has no such backend, or it cannot hold the model.
    """
    page = model.page
    if backend == page.backend:
        return page.connect()
    model.stop_serving()
    before = page.backend
    try:
        model.change_backend(backend, on_phase)
    except NnjitError:
        with contextlib.suppress(NnjitError):  # the first error is the one to tell
            model.change_backend(before, on_phase)
        raise
    page.fallback_reason = ""
    return page.connect()


def compare_backends(
    model: ModelOnPage,
    on_phase: OnPhase = quiet,
    runs: int = PROFILE_RUNS,
    gpu: Backend | None = None,
) -> BackendComparison:
    """Compare Wasm with WebGPU on the open model; afterwards the backend is what it was.

    Both run the best known kernels: Wasm, WebGPU, and Wasm again. Where the times of the steps say
    that some should run in Wasm and the others on WebGPU, that is timed too, and the model stays so
    divided for WebGPU if it is faster.

    Parameters
    ----------
    gpu
        Of the ways to WebGPU; the page's own when None.

    Raises
    ------
    UserError
        When no model is open, or it was cancelled.
    TargetError, PageError
        When the page has no WebGPU, or loses it for good.
    """
    page, opened, mine = model.page, model.current, model.page.backend
    gpu = gpu or (mine if mine.is_gpu else page.webgpu())
    with page.cancellable("The comparison", on_phase) as phase:
        try:
            before = _side(model, WASM, runs, phase)
            _forget_division(model, gpu)
            webgpu = _side(model, gpu, runs, phase)
            mixed, devices = _divided_side(model, before, webgpu, gpu, runs, phase)
            after = _side(model, WASM, runs, phase)
        finally:
            use_backend(model, mine)
    calls = [step for step in opened.plan.steps if step.op == "call"]
    wasm = min(before, after, key=lambda side: side.whole.median_ms)
    return BackendComparison(
        opened.graph.name,
        wasm,
        webgpu,
        tuple(
            StepPair(step.node, step.workload, *both)
            for step, *both in zip(calls, wasm.steps_ms, webgpu.steps_ms, strict=True)
        ),
        ratio(after.whole.median_ms, before.whole.median_ms),
        mixed,
        devices,
    )


def transfer_plans(plan: Plan) -> Mapping[str, Plan]:
    """Plans over the same memory that move inputs, or outputs, and run nothing.

    What is read has to be written: the outputs' bytes go there first, which is little compared
    with what it takes to get them back.
    """
    only = (PlanStep("return"),)
    return {
        UPLOAD: replace(plan, name=UPLOAD, outputs=(), steps=only),
        READBACK: replace(plan, name=READBACK, inputs=plan.outputs, steps=only),
    }


def _forget_division(model: ModelOnPage, gpu: Backend) -> None:
    """WebGPU is timed with all steps that it has kernels for."""
    page = model.page
    target = page.here(gpu).target
    remember(page.database.path.parent, model.current.path, target, None)
    model.opened = replace(model.current, mixed=None)


def _divided_side(
    model: ModelOnPage, wasm: Side, webgpu: Side, gpu: Backend, runs: int, on_phase: OnPhase
) -> tuple[Side | None, tuple[Device, ...]]:
    """The cheapest division by these times, and the device of each step; None where it is the
    present one, or none."""
    before = model.current
    times: dict[str, list[tuple[float, float]]] = {}
    calls = (step for step in before.plan.steps if step.op == "call")
    for step, *both in zip(calls, webgpu.steps_ms, wasm.steps_ms, strict=True):
        times.setdefault(step.workload, []).append((both[0], both[1]))
    means = {
        key: (statistics.fmean(t[0] for t in found), statistics.fmean(t[1] for t in found))
        for key, found in times.items()
    }
    plan = before.plan
    down_ms = _fixed_ms(webgpu.readback_ms, plan.outputs)
    measured = StepTimes(means, CopyCost(down_ms, _fixed_ms(webgpu.upload_ms, plan.inputs)))
    opened = divided(before, model.page.compiler, measured)
    if opened.mixed is None or opened.mixed == before.mixed:
        return None, before.mixed.devices if before.mixed else ()
    model.opened = opened
    side = _side(model, gpu, runs, on_phase)
    if side.whole.median_ms < webgpu.whole.median_ms:
        remember(model.page.database.path.parent, before.path, model.page.target, measured)
    else:
        model.opened = before
    return side, opened.mixed.devices


def _fixed_ms(ms: float, ports: Sequence[PlanPort]) -> float:
    """What a copy takes however small it is, of the time that these tensors took together."""
    return max(LEAST_COPY_MS, ms - sum(p.spec.nbytes for p in ports) / CopyCost.bytes_per_ms)


def _side(model: ModelOnPage, backend: Backend, runs: int, on_phase: OnPhase) -> Side:
    device = use_backend(model, backend, on_phase)
    model.load_with(transfer_plans(model.current.plan))
    model.register_best(on_phase)
    on_phase(f"timing {backend.label}")
    warm_up(model)
    whole = Steady.of(model.infer(runs).runs_ms)
    steps = time_steps(model, runs)
    if backend.is_gpu and model.page.fallback_reason:  # this was Wasm, then
        raise UserError(f"{model.page.fallback_reason} So there is nothing to compare.")
    return Side(
        backend=backend.name,
        target=device.label,
        tier=device.best_tier,
        threads=device.threads,
        adapter=device.gpu.name if device.gpu else "",
        software=bool(device.gpu and device.gpu.is_fallback),
        whole=whole,
        upload_ms=_moved_ms(model, UPLOAD, runs),
        readback_ms=_moved_ms(model, READBACK, runs),
        steps_ms=steps.steps_ms,
    )


def _moved_ms(model: ModelOnPage, name: str, runs: int) -> float:
    model.infer_plan(name, 2)
    return statistics.median(model.infer_plan(name, runs).runs_ms)
