"""A plan for any size in wasmtime, over memory that begins as rubbish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.any_size.runs.loops import run_steps
from nnjit_studio.compiler.any_size.runs.rubbish import fresh, run_twice
from nnjit_studio.model import Plan, PlanStep
from nnjit_studio.model.memory import FIRST_BYTES, PAGE_BYTES
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.plan import ALIGNMENT_BYTES
from nnjit_studio.records import Kernel

_TYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i8": np.int8, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
_RUBBISH = 0xCD
_RED_BYTES = 64

Array = NDArray[Any]


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
        mine = fresh(plan)

        def memory_of(place: int) -> NDArray[np.uint8]:
            return image[at[place] : at[place] + plan.buffers[place].nbytes]

        def call(step: PlanStep) -> None:
            variant = found[step.workload]
            if step.workload not in bound:
                instance = wasmtime.Instance(store, self._module(step.workload), [memory])
                bound[step.workload] = instance.exports(store)["run"]
            scalars = [_i32(s.at(sizes)) for s in variant.scalars]
            extent = variant.extent.at(sizes)

            def run() -> None:
                for begin, end in ((0, extent // 2), (extent // 2, extent)):
                    bound[step.workload](store, *(at[a] for a in step.args), *scalars, begin, end)

            run_twice(run, mine[step], memory_of)

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
