"""Buffers and bind groups of a GPU device, by the page's numbers and checked.

Nothing outlives a destroyed buffer: bind groups that name one go with it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import wgpu

from nnjit_studio.engine.gpu_bridge.wire import Create, GpuFault, bindings

MAX_BUFFERS = 65536
_USAGE = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST


@dataclass
class Layout:
    """One for each list of accesses, so that pipelines share bind groups."""

    group: Any
    pipeline: Any
    count: int
    groups: dict[bytes, Any] = field(default_factory=dict)


@dataclass
class Buffer:
    gpu: Any
    number: int
    nbytes: int
    used_by: list[tuple[Layout, bytes]] = field(default_factory=list)

    def check(self, offset: int, nbytes: int) -> None:
        """Refuse a range that does not lie in the buffer."""
        if offset % 4 or nbytes % 4 or offset + nbytes > self.nbytes:
            raise GpuFault(
                f"{nbytes} bytes at {offset} do not lie in buffer {self.number} of "
                f"{self.nbytes} bytes."
            )


class Buffers:
    """The buffers of a device; with ``software`` they share half of this machine's memory."""

    def __init__(self, device: Any, largest: int, software: bool) -> None:
        self._device = device
        self._largest = largest
        self._room = _software_room() if software else None
        self._held: dict[int, Buffer] = {}

    def __getitem__(self, number: int) -> Buffer:
        buffer = self._held.get(number)
        if buffer is None:
            raise GpuFault(f"There is no buffer {number}.")
        return buffer

    def create(self, command: Create) -> None:
        number, nbytes = command.buffer, command.nbytes
        if number in self._held or len(self._held) >= MAX_BUFFERS:
            raise GpuFault(f"Buffer {number} is there already, or there are too many.")
        if nbytes % 4 or not 0 < nbytes <= self._largest:
            raise GpuFault(f"A buffer cannot have {nbytes} bytes here.", code="gpu-memory")
        if self._room is not None and nbytes > self._room:
            raise GpuFault(
                f"{nbytes} bytes more do not fit: a software adapter may take half of the memory.",
                code="gpu-memory",
            )
        made = self._device.create_buffer(size=nbytes, usage=_USAGE)
        self._held[number] = Buffer(made, number, nbytes)
        if self._room is not None:
            self._room -= nbytes

    def forget(self, number: int) -> Any:
        """Take a buffer out of the table; wgpu's buffer, to be destroyed after its last use."""
        buffer = self[number]
        del self._held[number]
        for layout, packed in buffer.used_by:
            layout.groups.pop(packed, None)
        if self._room is not None:
            self._room += buffer.nbytes
        return buffer.gpu

    def make_group(self, layout: Layout, packed: bytes) -> Any:
        """A bind group of a dispatch's bindings, kept in the layout."""
        asked = bindings(packed)
        if len(asked) != layout.count:
            raise GpuFault(f"{len(asked)} bindings do not fit a kernel of {layout.count}.")
        entries = []
        for i, (number, offset, size) in enumerate(asked):
            buffer = self[number]
            buffer.check(offset, size)
            resource = {"buffer": buffer.gpu, "offset": offset, "size": size}
            entries.append({"binding": i, "resource": resource})
        group = self._device.create_bind_group(layout=layout.group, entries=entries)
        layout.groups[packed] = group
        for number, _, _ in asked:
            self[number].used_by.append((layout, packed))
        return group


def _software_room() -> int | None:
    """Half of this machine's memory in bytes, None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return None
