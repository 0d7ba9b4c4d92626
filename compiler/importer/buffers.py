"""The buffers of a plan: tensors in the arena, states that outlive a run, and weights.

Tensors have their offsets from a static plan; weights that two plans share are stored once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.recognize.softmax import overwritten
from nnjit_studio.compiler.recognize.subject import PackedWeight
from nnjit_studio.compiler.schedule.matmul import WIDEST_PANEL
from nnjit_studio.compiler.tvm_adapter import ProgramCall, Value
from nnjit_studio.model import DTYPE_BYTES, PlanBuffer
from nnjit_studio.model.plan import HALF_BYTES, WORD_BYTES
from nnjit_studio.model.storage import Lifetime, aligned, plan_offsets

_Key = tuple[Any, ...]


class Weights:
    """Places for the weights of plans that are built one after another.

    Within a plan every call of :meth:`place` gets a place of its own: kernels
    of one plan may want one weight in two layouts. A later plan takes over
    the places of equal weights that it may want in panels of the same size.
    """

    def __init__(self, path: Path) -> None:
        self.nbytes = 0
        self.path = path
        self._new: list[tuple[int, int, tuple[int, int] | None, NDArray[Any]]] = []
        self._written: dict[_Key, list[int]] = {}
        self._free: dict[_Key, list[int]] = {}
        path.write_bytes(b"")

    def place(self, data: NDArray[Any], nbytes: int, pack: tuple[int, int] | None) -> int:
        """The offset of a weight that takes ``nbytes``, which is what it is padded to."""
        if self._free and (known := self._free.get(_key(data, nbytes, pack))):
            return known.pop(0)
        offset = self.nbytes
        self.nbytes += aligned(nbytes)
        self._new.append((offset, nbytes, pack, data))
        return offset

    def finish_plan(self, more: bool = False) -> None:
        """Write what is new; with ``more`` a further plan begins."""
        with self.path.open("r+b") as file:
            for offset, _, _, data in self._new:
                file.seek(offset)
                file.write(data.reshape(-1).view(np.uint8).data)
            file.truncate(self.nbytes)
        if more:
            for offset, nbytes, pack, data in self._new:
                self._written.setdefault(_key(data, nbytes, pack), []).append(offset)
            self._free = {key: list(offsets) for key, offsets in self._written.items()}
        self._new = []


def _key(data: NDArray[Any], nbytes: int, pack: tuple[int, int] | None) -> _Key:
    digest = hashlib.blake2b(data.reshape(-1).view(np.uint8).data, digest_size=16).digest()
    return data.shape, data.dtype.str, nbytes, pack, digest


SMALLEST_SHARED = 1 << 20
"""Smallest input, in bytes, that an output may overwrite: a step in place cannot be timed by
repeated runs."""


class Buffers:
    """Places for values, by number; ``root`` tells what a view is a view of."""

    def __init__(self, store: Weights, root: Callable[[str], str]) -> None:
        self.state_bytes = 0
        self._store = store
        self._root = root
        self._all: list[PlanBuffer | Lifetime] = []
        self._arena: dict[str, int] = {}
        self._over: dict[int, int] = {}  # a buffer -> the one whose place it takes
        self._weights: dict[tuple[str, str], int] = {}

    def place_state(self, value: Value) -> None:
        nbytes = _nbytes(value.shape, value.dtype)
        self._arena[value.name] = self._add(PlanBuffer("state", self.state_bytes, nbytes))
        self.state_bytes += aligned(nbytes)

    def alias(self, value: Value, buffer: int) -> None:
        """A value of a loop's body that lies in a buffer which is there already."""
        self._arena[self._root(value.name)] = buffer

    def row(self, value: Value) -> int:
        """A register of a loop."""
        return self._add(PlanBuffer("row", 0, _nbytes(value.shape, value.dtype)))

    def knows(self, value: Value) -> bool:
        """Whether a computed value has a place."""
        return self._root(value.name) in self._arena

    def is_state(self, value: Value) -> bool:
        if value.constant is not None:
            return False
        return isinstance(self._all[self._arena[self._root(value.name)]], PlanBuffer)

    def place(self, value: Value, first: int, end: int, over: int | None = None) -> int:
        """The buffer of a value that lives from step ``first`` to ``end``, maybe over another."""
        root = self._root(value.name)
        if root not in self._arena:
            self._arena[root] = self.workspace(value.shape, value.dtype, first, end)
            if over is not None:
                self._over[self._arena[root]] = self._over.get(over, over)
        return self._arena[root]

    def workspace(self, shape: tuple[int, ...], dtype: str, first: int, end: int) -> int:
        return self._add(Lifetime(_nbytes(shape, dtype), first, end))

    def argument(self, value: Value, key: str = "", pack: PackedWeight | None = None) -> int:
        """The buffer that a step of workload ``key`` reads a value from."""
        if value.constant is None:
            return self._arena[self._root(value.name)]
        # A weight that a kernel may want in panels is not shared with other kernels.
        use = (value.name, key if pack else "")
        if use not in self._weights:
            data = np.ascontiguousarray(value.constant)
            nbytes, unit = data.nbytes, WORD_BYTES
            if pack is not None:  # room for the padding of any panels
                columns = -(-pack.n // WIDEST_PANEL) * WIDEST_PANEL
                unit = HALF_BYTES if value.dtype == "f16" else WORD_BYTES
                nbytes = pack.k * columns * unit
            sizes = (pack.k, pack.n) if pack else None
            offset = self._store.place(data, nbytes, sizes)
            self._weights[use] = self._add(PlanBuffer("weight", offset, nbytes, sizes, unit))
        return self._weights[use]

    def overwritten(self, call: ProgramCall, position: int) -> int | None:
        """The buffer of a large input that the step's output may overwrite, because nothing reads
        it later."""
        name = overwritten(call.program)
        given = zip(call.program.buffers, call.inputs, strict=False)
        value = next((value for buffer, value in given if buffer.name == name), None)
        if value is None or value.constant is not None:
            return None
        root = self._root(value.name)
        buffer = self._all[self._arena[root]]
        alone = [self._root(v.name) for v in call.inputs].count(root) == 1
        ends = isinstance(buffer, Lifetime) and buffer.last == position
        return self._arena[root] if alone and ends and buffer.nbytes >= SMALLEST_SHARED else None

    def planned(self) -> tuple[tuple[PlanBuffer, ...], int]:
        """All buffers with their offsets, and the bytes of the arena."""
        lives = {i: b for i, b in enumerate(self._all) if isinstance(b, Lifetime)}
        for i, base in self._over.items():
            lives[base] = replace(lives[base], last=max(lives[base].last, lives.pop(i).last))
        offsets, total = plan_offsets(list(lives.values()))
        at = dict(zip(lives, offsets, strict=True))
        planned = tuple(
            b
            if isinstance(b, PlanBuffer)
            else PlanBuffer("arena", at[self._over.get(i, i)], b.nbytes)
            for i, b in enumerate(self._all)
        )
        return planned, total

    def _add(self, buffer: PlanBuffer | Lifetime) -> int:
        self._all.append(buffer)
        return len(self._all) - 1


def _nbytes(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * DTYPE_BYTES[dtype]
