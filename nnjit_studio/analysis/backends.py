"""Which is faster here, Wasm or WebGPU: both on one page, whole and by step, and why."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from nnjit_studio.analysis.profile import Steady
from nnjit_studio.analysis.profile.run import STEP_QUANTA, WARM_MS, steady
from nnjit_studio.errors import UserError
from nnjit_studio.model import Plan, PlanStep
from nnjit_studio.records import DeviceProfile, Inference
from nnjit_studio.records.backend import WASM, Backend

UPLOAD, READBACK = "upload", "readback"
EVEN = 1.05
"""Up to this ratio neither is called faster."""
DRIFT = 1.15
"""Wasm is timed before and after WebGPU; so far apart the comparison is doubtful."""
LEAST_MS = 1e-3
"""A page's clock may show nothing of a tiny model."""
SMALL_MS = 0.1
"""A step that Wasm does in less is a small one: about what a few dispatches cost a GPU."""


class Comparable(Protocol):
    """What the comparison needs of the workbench."""

    @property
    def runner(self) -> Any: ...

    @property
    def model(self) -> Any: ...

    @property
    def fallback_reason(self) -> str: ...

    def use_backend(self, backend: Backend, on_phase: Callable[[str], None]) -> DeviceProfile: ...

    def register_best(self, on_phase: Callable[[str], None]) -> None: ...

    def infer(
        self, runs: int = 1, profile: bool = False, least_step_ms: float = 0.0
    ) -> Inference: ...

    def infer_plan(self, name: str, runs: int) -> Inference: ...


@dataclass(frozen=True)
class Side:
    """One backend's times.

    Attributes
    ----------
    backend, target, tier, adapter
        What ran; the adapter is empty for Wasm.
    whole
        Of whole runs, from inputs in the page to outputs in the page.
    upload_ms, readback_ms
        Of runs that only hand the inputs over, and that only bring outputs back.
    steps_ms
        Median of each step of the plan.
    """

    backend: str
    target: str
    tier: str
    threads: int
    adapter: str
    software: bool
    whole: Steady
    upload_ms: float
    readback_ms: float
    steps_ms: tuple[float, ...]

    @property
    def kernels_ms(self) -> float:
        return sum(self.steps_ms)

    @property
    def transfers_ms(self) -> float:
        return self.upload_ms + self.readback_ms

    @property
    def rest_ms(self) -> float:
        """What is neither kernels nor transfers: starting them, and waiting to be noticed."""
        return max(0.0, self.whole.median_ms - self.kernels_ms - self.transfers_ms)

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        parts = {n: getattr(self, n) for n in ("kernels_ms", "transfers_ms", "rest_ms")}
        return {**data, **parts, "ms": self.whole.median_ms}


@dataclass(frozen=True)
class StepPair:
    """A step of the plan on both."""

    node: str
    workload: str
    wasm_ms: float
    webgpu_ms: float


@dataclass(frozen=True)
class BackendComparison:
    """The answer. ``drift`` is Wasm's time after WebGPU's by that before."""

    model: str
    wasm: Side
    webgpu: Side
    steps: tuple[StepPair, ...]
    drift: float

    @property
    def ratio(self) -> float:
        """Wasm's time by WebGPU's: above 1 WebGPU is faster."""
        return _by(self.wasm.whole.median_ms, self.webgpu.whole.median_ms)

    @property
    def faster(self) -> str:
        """``webgpu``, ``wasm`` or ``even``."""
        if max(self.ratio, 1 / self.ratio) <= EVEN:
            return "even"
        return "webgpu" if self.ratio > 1 else "wasm"

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": True,
            "model": self.model,
            "faster": self.faster,
            "ratio": self.ratio,
            "why": why(self),
            "drift": self.drift,
            "wasm": self.wasm.to_json(),
            "webgpu": self.webgpu.to_json(),
            "steps": [asdict(step) for step in self.steps],
        }


def transfer_plans(plan: Plan) -> Mapping[str, Plan]:
    """Plans over the same memory that move inputs, or outputs, and run nothing.

    What is read has to be written: the outputs' bytes go there first, which is little beside
    what it takes to get them back.
    """
    only = (PlanStep("return"),)
    return {
        UPLOAD: replace(plan, name=UPLOAD, outputs=(), steps=only),
        READBACK: replace(plan, name=READBACK, inputs=plan.outputs, steps=only),
    }


def compare_backends(
    bench: Comparable,
    gpu: Backend,
    runs: int,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> BackendComparison:
    """Time the open model on Wasm, on WebGPU, and on Wasm again, with the best known kernels.

    Raises
    ------
    UserError
        When no model is open.
    TargetError, PageError
        When the page has no WebGPU, or loses it for good.
    """
    if bench.model is None:
        raise UserError("No model is open.", "Open an .onnx file first.")
    before = _side(bench, WASM, runs, on_phase)
    webgpu = _side(bench, gpu, runs, on_phase)
    on_gpu = _calls(bench.model.plan)
    after = _side(bench, WASM, runs, on_phase)
    wasm = min(before, after, key=lambda side: side.whole.median_ms)
    return BackendComparison(
        bench.model.graph.name,
        wasm,
        webgpu,
        tuple(_pairs(_calls(bench.model.plan), wasm.steps_ms, on_gpu, webgpu.steps_ms)),
        _by(after.whole.median_ms, before.whole.median_ms),
    )


def _calls(plan: Plan) -> list[PlanStep]:
    return [step for step in plan.steps if step.op == "call"]


def _pairs(
    on_wasm: Sequence[PlanStep],
    wasm_ms: Sequence[float],
    on_gpu: Sequence[PlanStep],
    gpu_ms: Sequence[float],
) -> Iterator[StepPair]:
    """The GPU's steps; what only Wasm has is part of the next step that is another one there."""
    there = list(zip(on_gpu, gpu_ms, strict=True))
    fused_ms = 0.0
    for call, ms in zip(on_wasm, wasm_ms, strict=True):
        if not there or call.node != there[0][0].node:
            fused_ms += ms
            continue
        other, other_ms = there.pop(0)
        if other.workload != call.workload:
            ms, fused_ms = ms + fused_ms, 0.0
        yield StepPair(call.node, other.workload, ms, other_ms)


def _side(bench: Comparable, backend: Backend, runs: int, on_phase: Callable[[str], None]) -> Side:
    device = bench.use_backend(backend, on_phase)
    model = bench.model
    bench.runner.load(model.plan, model.weights, transfer_plans(model.plan))
    bench.register_best(on_phase)
    on_phase(f"timing {backend.label}")
    once_ms = bench.infer(1).runs_ms[0]
    bench.infer(max(2, min(1000, round(WARM_MS / max(once_ms, 0.1)))))
    whole = steady(bench.infer(runs).runs_ms)
    steps = bench.infer(runs, profile=True, least_step_ms=STEP_QUANTA * device.timer_quantum_ms)
    if backend.is_gpu and bench.fallback_reason:  # this was Wasm, then
        raise UserError(f"{bench.fallback_reason} So there is nothing to compare.")
    return Side(
        backend=backend.name,
        target=device.label,
        tier=device.best_tier,
        threads=device.threads,
        adapter=device.gpu.name if device.gpu else "",
        software=bool(device.gpu and device.gpu.is_fallback),
        whole=whole,
        upload_ms=_moved_ms(bench, UPLOAD, runs),
        readback_ms=_moved_ms(bench, READBACK, runs),
        steps_ms=steps.steps_ms,
    )


def _moved_ms(bench: Comparable, name: str, runs: int) -> float:
    bench.infer_plan(name, 2)
    return statistics.median(bench.infer_plan(name, runs).runs_ms)


def _by(a_ms: float, b_ms: float) -> float:
    return max(a_ms, LEAST_MS) / max(b_ms, LEAST_MS)


def why(found: BackendComparison) -> list[str]:
    """The answer in sentences, the first one alone being an answer."""
    gpu = found.webgpu
    told = [_headline(found), _parts(gpu, len(found.steps))]
    if found.faster == "webgpu" and found.steps:
        gains = sorted(found.steps, key=lambda s: s.webgpu_ms - s.wasm_ms)
        best = gains[0]
        told.append(
            f"The largest gain is {best.node or best.workload}: {_ms(best.wasm_ms)} in Wasm, "
            f"{_ms(best.webgpu_ms)} on the GPU."
        )
    elif found.faster == "wasm":
        told.append(_what_holds_the_gpu_up(found))
    if gpu.software:
        told.append(f"{gpu.adapter} runs on the processor: this says nothing of a GPU.")
    slower = [s for s in found.steps if s.webgpu_ms > s.wasm_ms]
    if slower and found.faster != "wasm":
        told.append(
            f"{len(slower)} of {len(found.steps)} steps are faster in Wasm, by "
            f"{_ms(sum(s.webgpu_ms - s.wasm_ms for s in slower))} together."
        )
    if max(found.drift, 1 / found.drift) > DRIFT:
        told.append(
            f"Wasm took {found.drift:.2f}x its first time when it was timed again: "
            "the machine was busy with something else, so compare once more."
        )
    return told


def _headline(found: BackendComparison) -> str:
    wasm, gpu = found.wasm.whole.median_ms, found.webgpu.whole.median_ms
    on = f"Wasm on {_threads(found.wasm.threads)} takes {_ms(wasm)}, WebGPU {_ms(gpu)}"
    if found.faster == "even":
        return f"Both are about as fast: {on}."
    name, ratio = ("WebGPU", found.ratio) if found.ratio > 1 else ("Wasm", 1 / found.ratio)
    return f"{name} is {ratio:.1f}x as fast here: {on}."


def _parts(gpu: Side, steps: int) -> str:
    whole = gpu.whole.median_ms
    return (
        f"Of WebGPU's time its kernels take {_share(gpu.kernels_ms, whole)}, moving the inputs "
        f"there and the outputs back {_share(gpu.transfers_ms, whole)}, and starting {steps} "
        f"steps and noticing their end {_share(gpu.rest_ms, whole)}."
    )


def _what_holds_the_gpu_up(found: BackendComparison) -> str:
    wasm, gpu = found.wasm, found.webgpu
    if gpu.kernels_ms < wasm.whole.median_ms:
        if gpu.transfers_ms >= gpu.rest_ms:
            return (
                f"The GPU's kernels alone ({_ms(gpu.kernels_ms)}) beat Wasm; the transfers "
                f"({_ms(gpu.transfers_ms)}) cost more than they save."
            )
        return (
            f"The GPU's kernels alone ({_ms(gpu.kernels_ms)}) beat Wasm; starting them and "
            f"waiting for the GPU ({_ms(gpu.rest_ms)}) cost more than they save."
        )
    slower = [s for s in found.steps if s.webgpu_ms > s.wasm_ms]
    lost = sum(s.webgpu_ms - s.wasm_ms for s in slower)
    small = [s for s in slower if s.wasm_ms < SMALL_MS]
    in_small = sum(s.webgpu_ms - s.wasm_ms for s in small)
    if in_small > lost / 2:
        return (
            f"{len(small)} small steps, each under {SMALL_MS:g} ms in Wasm, take "
            f"{_ms(in_small)} longer on the GPU: there is too little in them to fill it."
        )
    worst = max(found.steps, key=lambda s: s.webgpu_ms - s.wasm_ms)
    return (
        f"The kernels themselves are slower on the GPU, most of all "
        f"{worst.node or worst.workload}: {_ms(worst.webgpu_ms)} against {_ms(worst.wasm_ms)} "
        "in Wasm."
    )


def as_text(found: BackendComparison, top: int | None = None) -> str:
    """The answer, the parts of both, and the steps with the largest differences."""
    sides = [found.wasm, found.webgpu]
    head = f"{'':<10}{'whole':>10}{'kernels':>10}{'upload':>10}{'readback':>10}{'rest':>10}  ms"
    lines = [*why(found), "", head]
    for side in sides:
        numbers = (
            side.whole.median_ms,
            side.kernels_ms,
            side.upload_ms,
            side.readback_ms,
            side.rest_ms,
        )
        what = f"{side.target}, {side.tier}" + (f", {side.adapter}" if side.adapter else "")
        lines.append(f"{side.backend:<10}" + "".join(f"{n:>10.3f}" for n in numbers) + f"  {what}")
    ranked = sorted(found.steps, key=lambda s: -abs(s.wasm_ms - s.webgpu_ms))[:top]
    lines += ["", f"{'step':<36}{'wasm ms':>10}{'webgpu ms':>11}{'ratio':>8}"]
    lines += [
        f"{_short(s.node or s.workload):<36}{s.wasm_ms:>10.3f}{s.webgpu_ms:>11.3f}{_ratio(s):>8}"
        for s in ranked
    ]
    return "\n".join(lines)


def _ratio(step: StepPair) -> str:
    return f"{step.wasm_ms / step.webgpu_ms:.2f}" if step.webgpu_ms else "-"


def _short(name: str, width: int = 35) -> str:
    return name if len(name) <= width else "…" + name[1 - width :]


def _share(part: float, whole: float) -> str:
    return f"{_ms(part)} ({part / whole:.0%})" if whole else _ms(part)


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value >= 10 else f"{value:.3g} ms"
