"""A cursor over bytes that are not trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file import leb

T = TypeVar("T")
MOST_ENTRIES = 1_000_000
"""Of types, functions, imports, exports or globals (WebAssembly JavaScript Interface, limits)."""


class Cursor:
    """Reads between two offsets; every read past the end is a WasmError."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self.data = data
        self.at = start
        self.end = end

    def take(self, n: int) -> bytes:
        if self.at + n > self.end:
            raise WasmError("The module ends too early.")
        self.at += n
        return self.data[self.at - n : self.at]

    def byte(self) -> int:
        if self.at >= self.end:
            raise WasmError("The module ends too early.")
        self.at += 1
        return self.data[self.at - 1]

    def peek(self) -> int:
        return self.data[self.at] if self.at < self.end else -1

    def unsigned(self) -> int:
        value, self.at = leb.read_unsigned(self.data, self.at)
        if self.at > self.end:
            raise WasmError("The module ends too early.")
        return value

    def signed(self) -> int:
        value, self.at = leb.read_signed(self.data, self.at)
        if self.at > self.end:
            raise WasmError("The module ends too early.")
        return value

    def name(self) -> str:
        try:
            return self.take(self.unsigned()).decode("utf-8")
        except UnicodeDecodeError:
            raise WasmError("A name in the module is not UTF-8.") from None

    def part(self, n: int) -> Cursor:
        """A cursor over the next ``n`` bytes, which this one steps over."""
        start = self.at
        if start + n > self.end:
            raise WasmError("The module ends too early.")
        self.at += n
        return Cursor(self.data, start, self.at)

    def items(self, read: Callable[[Cursor], T]) -> list[T]:
        """A counted list; a count beyond the bytes that are left or that of engines is an error."""
        count = self.unsigned()
        if count > self.end - self.at:
            raise WasmError(f"A section promises {count} entries and has too few bytes for them.")
        if count > MOST_ENTRIES:
            raise WasmError(f"A section has {count} entries, more than any engine takes.")
        return [read(self) for _ in range(count)]
