"""Runs an open plan at any sizes in wasmtime: one memory, kernels that were compiled once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import wasmtime
from kernel_harness import NUMPY, engine, pack_panels

from nnjit_studio.compiler.any_size.imports import AnySize

BASE = 1024
Arrays = Mapping[str, np.ndarray]


class OpenRunner:
    """An open plan over its weights."""

    def __init__(self, made: AnySize, weights: Path, tier: str) -> None:
        self.plan = made.plan
        self.kernels = {k.workload: k for k in made.kernels if k.tier == tier}
        self._weights = np.fromfile(weights, np.uint8)
        self._pack()
        self._module = cache(lambda name: wasmtime.Module(engine(), self.kernels[name].data))

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
                words = self._weights[held.offset : held.offset + 4 * k * n].view(np.int32)
                data = pack_panels(words.reshape(k, n), width).reshape(-1).view(np.uint8)
                self._weights[held.offset : held.offset + data.size] = data

    def run(
        self, sizes: Mapping[str, int], feeds: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The outputs, over an arena that begins as rubbish."""
        plan = self.plan.at(sizes)
        arena = -(-(BASE + plan.weights_bytes) // 64) * 64
        store = wasmtime.Store(engine())
        pages = -(-(arena + plan.arena_bytes + 64) // 65536)
        memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(pages, None)))
        image = np.full(pages * 65536, 0xCD, np.uint8)
        image[BASE : BASE + self._weights.size] = self._weights
        at = [b.offset + (arena if b.region == "arena" else BASE) for b in plan.buffers]
        for port in plan.inputs:
            data = np.ascontiguousarray(feeds[port.spec.name], NUMPY[port.spec.dtype])
            assert data.shape == port.spec.shape
            image[at[port.buffer] : at[port.buffer] + data.nbytes] = data.reshape(-1).view(np.uint8)
        memory.write(store, bytearray(image.tobytes()), 0)
        for step in self.plan.steps:
            if step.op == "call":
                variant = self.plan.kernels[step.workload].at(sizes)
                instance = wasmtime.Instance(store, self._module(variant.workload), [memory])
                scalars = [_i32(s.at(sizes)) for s in variant.scalars]
                extent = variant.extent.at(sizes)
                run = instance.exports(store)["run"]
                for begin, end in ((0, extent // 2), (extent // 2, extent)):
                    run(store, *(at[a] for a in step.args), *scalars, begin, end)
        end = arena + plan.arena_bytes
        assert set(memory.read(store, end, end + 64)) == {0xCD}
        result = {}
        for port in plan.outputs:
            dtype = np.dtype(NUMPY[port.spec.dtype])
            start = at[port.buffer]
            raw = memory.read(store, start, start + port.spec.size * dtype.itemsize)
            result[port.spec.name] = np.frombuffer(raw, dtype).reshape(port.spec.shape)
        return result


def _i32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
