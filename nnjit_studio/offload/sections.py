"""Entries appended to a module's sections; indices of what is there do not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.module import MAGIC, SECTIONS, Module
from nnjit_studio.wasm_file.sections import section

_NAMES = "type import function table memory tag global export start element data_count code data"
ORDER = tuple(SECTIONS.index(name) for name in _NAMES.split())
"""The sections of a module, in the order of the binary format."""


def number_of(name: str) -> int:
    return SECTIONS.index(name)


def appended(module: Module, entries: Mapping[int, Sequence[bytes]]) -> bytes:
    """The module with entries at the ends of sections, which are made where they are missing."""
    parts: list[tuple[int, bytes]] = []
    at = len(MAGIC)
    for found in module.sections:
        whole = module.data[at : found.end]
        new = entries.get(found.id, ()) if found.id else ()
        if new:
            count, start = leb.read_unsigned(module.data, found.start)
            whole = _made(found.id, count, module.data[start : found.end], new)
        parts.append((found.id, whole))
        at = found.end
    present = {number for number, _ in parts}
    for number in ORDER:
        if entries.get(number) and number not in present:
            place = ORDER.index(number)
            behind = (i for i, (n, _) in enumerate(parts) if n and ORDER.index(n) > place)
            parts.insert(next(behind, len(parts)), (number, _made(number, 0, b"", entries[number])))
    return MAGIC + b"".join(whole for _, whole in parts) + module.data[at:]


def count_of(module: Module, name: str) -> int:
    """Entries of a section."""
    found = next((s for s in module.sections if s.id == number_of(name)), None)
    return leb.read_unsigned(module.data, found.start)[0] if found else 0


def _made(number: int, count: int, old: bytes, new: Sequence[bytes]) -> bytes:
    return section(number, leb.unsigned(count + len(new)) + old + b"".join(new))
