"""Comparison of Wasm and WebGPU on one page: whole and by step, and the reason."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.analysis.profile.records import Steady
from nnjit_studio.model.placement import Device
from nnjit_studio.support.tables import text_table

EVEN = 1.05
"""Up to this ratio neither is called faster."""
DRIFT = 1.15
"""Wasm is timed before and after WebGPU; so far apart the comparison is doubtful."""
LEAST_MS = 1e-3
"""A page's clock may show nothing of a tiny model."""
SMALL_MS = 0.1
"""A step that Wasm does in less is a small one: about what a few dispatches cost a GPU."""


@dataclass(frozen=True)
class Side:
    """One backend's times.

    Attributes
    ----------
    backend, target, tier, adapter
        What ran; the adapter is empty for Wasm.
    """

    backend: str
    target: str
    tier: str
    threads: int
    adapter: str
    software: bool
    whole: Steady
    """Of whole runs, from inputs in the page to outputs in the page."""
    upload_ms: float
    """Of runs that only hand the inputs over."""
    readback_ms: float
    """Of runs that only bring outputs back."""
    steps_ms: tuple[float, ...]
    """Median of each step of the plan."""

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
    """The answer.

    Attributes
    ----------
    drift
        Wasm's time after WebGPU's by that before.
    mixed
        With steps divided between both as their times say; None where one device runs them best,
        or where WebGPU lacks kernels and its side was so divided already.
    devices
        Of each step in that division; none where there is none.
    """

    model: str
    wasm: Side
    webgpu: Side
    steps: tuple[StepPair, ...]
    drift: float
    mixed: Side | None = None
    devices: tuple[Device, ...] = ()

    @property
    def ratio(self) -> float:
        """Wasm's time by WebGPU's: above 1 WebGPU is faster."""
        return ratio(self.wasm.whole.median_ms, self.webgpu.whole.median_ms)

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
            "mixed": self.mixed.to_json() if self.mixed else None,
            "devices": list(self.devices),
            "steps": [asdict(step) for step in self.steps],
        }


def ratio(a_ms: float, b_ms: float) -> float:
    """``a_ms`` by ``b_ms``, where a page's clock may have shown nothing."""
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
    if found.devices:
        told.append(_divided(found))
    if max(found.drift, 1 / found.drift) > DRIFT:
        told.append(
            f"Wasm took {found.drift:.2f}x its first time when it was timed again: "
            "the machine was busy with something else, so compare once more."
        )
    return told


def _divided(found: BackendComparison) -> str:
    in_wasm = f"{found.devices.count('wasm')} of {len(found.devices)} steps in Wasm"
    if found.mixed is None:
        return f"WebGPU's times are with {in_wasm}: there is no better division."
    ms, whole = found.mixed.whole.median_ms, found.webgpu.whole.median_ms
    words = "so the model stays divided" if ms < whole else "so it stays as it was"
    return f"With {in_wasm} and the others on WebGPU it takes {_ms(ms)}: {words}."


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
    sides = []
    for name, side in (("", found.wasm), ("", found.webgpu), ("divided", found.mixed)):
        if side is None:
            continue
        parts_ms = (
            side.whole.median_ms, side.kernels_ms, side.upload_ms, side.readback_ms, side.rest_ms,
        )  # fmt: skip
        what = ", ".join(filter(None, (side.target, side.tier, side.adapter)))
        sides.append((name or side.backend, *(f"{ms:.3f}" for ms in parts_ms), what))
    ranked = sorted(found.steps, key=lambda s: -abs(s.wasm_ms - s.webgpu_ms))[:top]
    steps = [
        (
            _short(s.node or s.workload),
            f"{s.wasm_ms:.3f}",
            f"{s.webgpu_ms:.3f}",
            f"{s.wasm_ms / s.webgpu_ms:.2f}" if s.webgpu_ms else "-",
        )
        for s in ranked
    ]
    parts = ("ms", "whole", "kernels", "upload", "readback", "rest", "")
    tables = (
        text_table(parts, sides, left=(0, 6)),
        text_table(("step", "wasm ms", "webgpu ms", "ratio"), steps),
    )
    return "\n\n".join(("\n".join(why(found)), *tables))


def _short(name: str) -> str:
    return name if len(name) <= 35 else "…" + name[-34:]


def _share(part: float, whole: float) -> str:
    return f"{_ms(part)} ({part / whole:.0%})" if whole else _ms(part)


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value >= 10 else f"{value:.3g} ms"
