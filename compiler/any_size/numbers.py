"""The numeric check of an open plan: run in wasmtime, compared with native ONNX Runtime.

It happens before a bundle is written, at sizes that no formula was made from. Memory begins as
rubbish, so that what a kernel fails to write is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.compiler.any_size.loops import run_steps
from nnjit_studio.compiler.any_size.probe import Trial
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.model import Plan, PlanStep
from nnjit_studio.model.memory import FIRST_BYTES, PAGE_BYTES
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.plan import ALIGNMENT_BYTES
from nnjit_studio.records import TIERS, Kernel
from nnjit_studio.support.phases import OnPhase, quiet

TOLERANCE = 1e-3
"""Of an output's largest absolute value, for the largest difference of an element."""
HALF_TOLERANCE = 2e-2
"""The same where the bundle keeps weights as f16 and ONNX Runtime has f32."""
ROUNDED_TOLERANCE = 0.1
"""The same where the model rounds activations to 8 bits: sums in another order fall on other steps,
which moved MiniLM's by 0.03."""
FLIPPED = 0.01
"""The share of whole numbers that may differ: two equal scores may change places."""

_TYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i8": np.int8, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
_LEAST_SCALE = 2.0**-12
"""Where an output is smaller than this everywhere, such as probabilities of nothing, two steps of a
float at 1 are still within the tolerance: a sigmoid may be off by as much."""
_RUBBISH = 0xCD
_RED_BYTES = 64

Array = NDArray[Any]


def check_numbers(
    plan: OpenPlan,
    kernels: Sequence[Kernel],
    weights: Path,
    trial: Trial,
    at: Sequence[Sizes],
    half_weights: bool,
    on_phase: OnPhase = quiet,
) -> float:
    """Compare the outputs at these sizes, in both tiers, with native ONNX Runtime.

    Parameters
    ----------
    at
        Sizes of the plan's dimensions; what the model fixes is added by the trial's arrays.

    Returns
    -------
    float
        The largest difference of an element, as a share of its output's largest absolute value.

    Raises
    ------
    ModelError
        When an output differs by more than :data:`TOLERANCE`, or a kernel traps.
    """
    limit, worst = HALF_TOLERANCE if half_weights else TOLERANCE, 0.0
    limit = ROUNDED_TOLERANCE if trial.rounds else limit
    runners = [OpenRunner(plan, kernels, weights, tier) for tier in TIERS]
    for sizes in at:
        text = ", ".join(f"{d.name}={sizes[d.name]}" for d in plan.dims)
        on_phase(f"checking the numbers at {text}")
        feeds, wanted = trial.values(sizes)
        for runner in runners:
            try:
                found = runner.run(sizes, feeds)
            except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
                raise refused(f"a kernel fails at {text} ({str(error).splitlines()[0]})") from error
            for name, value in found.items():
                off = difference(value, wanted[name])
                if not off <= limit:
                    raise refused(f"{name} differs from ONNX Runtime's by {off:.1g} at {text}")
                worst = max(worst, off)
    return worst


def difference(found: Array, wanted: Array) -> float:
    """The largest difference of floats, by the largest absolute value; infinite where only one
    is a number. Of whole numbers 0 or, where more than :data:`FLIPPED` differ, infinite."""
    if found.shape != wanted.shape:
        return float("inf")
    if wanted.size == 0:
        return 0.0
    if wanted.dtype.kind != "f":
        return 0.0 if np.mean(found != wanted) <= FLIPPED else float("inf")
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(finite, np.isfinite(a)):
        return float("inf")
    scale = float(np.max(np.abs(b), where=finite, initial=0.0))
    off = float(np.max(np.abs(a - b, where=finite, out=np.zeros_like(b)), initial=0.0))
    return off / max(scale, _LEAST_SCALE)


@cache
def engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    config.wasm_relaxed_simd = True
    config.memory_reservation = 0  # the process has a limit of addresses too
    return wasmtime.Engine(config)


class OpenRunner:
    """An open plan over its weights, in one tier."""

    def __init__(self, plan: OpenPlan, kernels: Sequence[Kernel], weights: Path, tier: str) -> None:
        self.plan = plan
        self.kernels = {k.workload: k for k in kernels if k.tier == tier}
        self._weights = np.fromfile(weights, np.uint8)
        self._pack()
        self._modules: dict[str, wasmtime.Module] = {}

    def _pack(self) -> None:
        """Each packable weight once, in the panels that all variants of its readers want."""
        packed: set[int] = set()
        for step in self.plan.steps:
            if step.op != "call":
                continue
            (panels,) = {
                tuple(self.kernels[v.workload].panels)
                for v in self.plan.kernels[step.workload].variants
            }
            for position, width in panels:
                held = self.plan.buffers[step.args[position]]
                if held.offset in packed or held.pack is None:
                    continue
                packed.add(held.offset)
                k, n = held.pack
                unit = np.int16 if held.unit_bytes == 2 else np.int32
                nbytes = held.unit_bytes * k * n
                words = self._weights[held.offset : held.offset + nbytes].view(unit)
                data = _panels(words.reshape(k, n), width).reshape(-1).view(np.uint8)
                self._weights[held.offset : held.offset + data.size] = data

    def run(self, sizes: Sizes, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs at these sizes."""
        plan = self.plan.at(sizes)
        arena = -(-(FIRST_BYTES + plan.weights_bytes) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        end = arena + plan.arena_bytes
        pages = -(-(end + _RED_BYTES) // PAGE_BYTES)
        store = wasmtime.Store(engine())
        memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(pages, None)))
        image = np.frombuffer(memory.get_buffer_ptr(store), np.uint8)
        image[:] = _RUBBISH
        image[FIRST_BYTES : FIRST_BYTES + self._weights.size] = self._weights
        at = [b.offset + (arena if b.region == "arena" else FIRST_BYTES) for b in plan.buffers]
        for port in plan.inputs:
            data = np.ascontiguousarray(feeds[port.spec.name], _TYPES[port.spec.dtype])
            image[at[port.buffer] : at[port.buffer] + data.nbytes] = data.reshape(-1).view(np.uint8)
        self._run(plan, store, memory, sizes, at)
        if (image[end : end + _RED_BYTES] != _RUBBISH).any():
            raise refused("a kernel writes past the end of its memory")
        result = {}
        for port in plan.outputs:
            dtype = np.dtype(_TYPES[port.spec.dtype])
            start = at[port.buffer]
            raw = image[start : start + port.spec.size * dtype.itemsize].copy()
            count = int(image[at[port.found.count] :][:8].view(np.int64)[0]) if port.found else 0
            part = tuple(map(slice, port.cut(count).shape))
            result[port.spec.name] = raw.view(dtype).reshape(port.spec.shape)[part]
        return result

    def _run(
        self,
        plan: Plan,
        store: wasmtime.Store,
        memory: wasmtime.Memory,
        sizes: Sizes,
        at: list[int],
    ) -> None:
        """All kernels in turn, each in two parts as two threads would."""
        chosen = {name: kernel.at(sizes) for name, kernel in self.plan.kernels.items()}
        found = {v.workload: v for v in chosen.values()}
        bound: dict[str, Any] = {}

        def call(step: PlanStep) -> None:
            variant = found[step.workload]
            if step.workload not in bound:
                instance = wasmtime.Instance(store, self._module(step.workload), [memory])
                bound[step.workload] = instance.exports(store)["run"]
            scalars = [_i32(s.at(sizes)) for s in variant.scalars]
            extent = variant.extent.at(sizes)
            for begin, end in ((0, extent // 2), (extent // 2, extent)):
                bound[step.workload](store, *(at[a] for a in step.args), *scalars, begin, end)

        image = np.frombuffer(memory.get_buffer_ptr(store), np.uint8)
        run_steps(plan, image, at, call)

    def _module(self, workload: str) -> wasmtime.Module:
        if workload not in self._modules:
            self._modules[workload] = wasmtime.Module(engine(), self.kernels[workload].data)
        return self._modules[workload]


def _panels(b: Array, width: int) -> Array:
    """K x N row-major to panels of ``width`` columns (docs/protocol.md)."""
    k, n = b.shape
    count = -(-n // width)
    padded = np.zeros((k, count * width), b.dtype)
    padded[:, :n] = b
    return np.ascontiguousarray(padded.reshape(k, count, width).transpose(1, 0, 2))


def _i32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
