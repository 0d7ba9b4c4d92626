"""Commands to a GPU as the page packs them: 32-bit words, little endian (docs/webgpu.md).

A page is not trusted: lengths, operations and sizes are checked here, what they
mean to a device is checked in :mod:`nnjit_studio.engine.gpu_bridge.device`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from nnjit_studio.errors import PageError

CREATE, DESTROY, WRITE, DISPATCH, COPY, STAMP = 1, 2, 3, 4, 5, 6

COMPILER_THREAD = "nnjit-gpu-compile"
MAX_BINDINGS = 64
_DISPATCH = struct.Struct("<6I")
"""Operation, pipeline, workgroups, and the number of bindings, which follow."""
_BINDING = struct.Struct("<IQQ")


class GpuFault(Exception):
    """What a device refuses; ``code`` is one of the page's (resources/engine/gpu/errors.js)."""

    def __init__(self, error: str, hint: str = "", code: str = "") -> None:
        super().__init__(error)
        self.error = error
        self.hint = hint
        self.code = code


@dataclass(frozen=True, slots=True)
class Create:
    buffer: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Destroy:
    buffer: int


@dataclass(frozen=True, slots=True)
class Write:
    """Puts blob number ``blob`` of the frame at ``offset``."""

    buffer: int
    offset: int
    blob: int


@dataclass(frozen=True, slots=True)
class Copy:
    source: int
    source_offset: int
    to: int
    to_offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Stamp:
    index: int


Dispatch = tuple[int, int, int, int, bytes]
"""Pipeline, workgroups x, y, z, and the bindings as they were packed. Of all commands
these come in thousands, so they are no object and their bindings are not read: equal
bytes are an equal bind group."""

Command = Create | Destroy | Write | Copy | Stamp | Dispatch

_FORMS: dict[int, tuple[type[Create | Destroy | Write | Copy | Stamp], struct.Struct]] = {
    CREATE: (Create, struct.Struct("<4xIQ")),
    DESTROY: (Destroy, struct.Struct("<4xI")),
    WRITE: (Write, struct.Struct("<4xIQI")),
    COPY: (Copy, struct.Struct("<4xIQIQQ")),
    STAMP: (Stamp, struct.Struct("<4xI")),
}
"""Of each command but a dispatch; the operation is its first word."""


def unpack(data: bytes) -> Iterator[Command]:
    """The commands of a batch, in order.

    Raises
    ------
    PageError
        At a word that is no operation, or a command that is cut off.
    """
    if len(data) % 4:
        raise _bad(f"{len(data)} bytes are no whole words")
    at = 0
    while at < len(data):
        op = int.from_bytes(data[at : at + 4], "little")
        try:
            if op == DISPATCH:
                _, pipeline, x, y, z, count = _DISPATCH.unpack_from(data, at)
                begin = at + _DISPATCH.size
                at = begin + _BINDING.size * count
                if count > MAX_BINDINGS:
                    raise _bad(f"{count} bindings are more than {MAX_BINDINGS}")
                if at > len(data):
                    raise _bad("the last command is cut off")
                yield pipeline, x, y, z, data[begin:at]
            elif op in _FORMS:
                made, form = _FORMS[op]
                yield made(*form.unpack_from(data, at))
                at += form.size
            else:
                raise _bad(f"there is no operation {op}")
        except struct.error as error:
            raise _bad("the last command is cut off") from error


def bindings(packed: bytes) -> list[tuple[int, int, int]]:
    """Buffer, offset and size of each binding of a dispatch, in bytes."""
    return list(_BINDING.iter_unpack(packed))


def _bad(why: str) -> PageError:
    return PageError(f"A batch of GPU commands is malformed: {why}.", "Load the page again.")
