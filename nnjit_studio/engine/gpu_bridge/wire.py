"""Commands to a GPU as the page packs them: 32-bit words, little endian (docs/webgpu.md).

A page is a stranger: lengths, operations and sizes are checked here, what they
mean to a device is checked there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnjit_studio.errors import PageError

CREATE, DESTROY, WRITE, DISPATCH, COPY, STAMP = 1, 2, 3, 4, 5, 6

COMPILER_THREAD = "nnjit-gpu-compile"
MAX_BINDINGS = 64
WORDS_OF_A_BINDING = 5
_WORDS = {CREATE: 4, DESTROY: 2, WRITE: 5, DISPATCH: 6, COPY: 9, STAMP: 2}
"""Of each command, its operation included; a dispatch has its bindings behind them."""


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


def unpack(data: bytes) -> Iterator[Command]:
    """The commands of a batch, in order.

    Raises
    ------
    PageError
        At a word that is no operation, or a command that is cut off.
    """
    if len(data) % 4:
        raise _bad(f"{len(data)} bytes are no whole words")
    words = memoryview(data).cast("I")
    at, end = 0, len(words)
    while at < end:
        op = words[at]
        length = _WORDS.get(op)
        if length is None:
            raise _bad(f"there is no operation {op}")
        if at + length > end:
            raise _bad("the last command is cut off")
        if op == DISPATCH:
            _, pipeline, x, y, z, count = words[at : at + 6]
            begin = at + 6
            at = begin + WORDS_OF_A_BINDING * count
            if count > MAX_BINDINGS:
                raise _bad(f"{count} bindings are more than {MAX_BINDINGS}")
            if at > end:
                raise _bad("the last command is cut off")
            yield pipeline, x, y, z, data[4 * begin : 4 * at]
            continue
        fields = words[at + 1 : at + length].tolist()
        at += length
        if op == CREATE:
            yield Create(fields[0], _wide(fields, 1))
        elif op == DESTROY:
            yield Destroy(fields[0])
        elif op == WRITE:
            yield Write(fields[0], _wide(fields, 1), fields[3])
        elif op == COPY:
            offsets = (_wide(fields, 1), fields[3], _wide(fields, 4), _wide(fields, 6))
            yield Copy(fields[0], *offsets)
        else:
            yield Stamp(fields[0])


def bindings(packed: bytes) -> list[tuple[int, int, int]]:
    """Buffer, offset and size of each binding of a dispatch, in bytes."""
    words = memoryview(packed).cast("I").tolist()
    return [
        (words[i], _wide(words, i + 1), _wide(words, i + 3))
        for i in range(0, len(words), WORDS_OF_A_BINDING)
    ]


def _wide(words: list[int], at: int) -> int:
    """A number of 64 bits, the low word first."""
    return words[at] | words[at + 1] << 32


def _bad(why: str) -> PageError:
    return PageError(f"A batch of GPU commands is malformed: {why}.")
