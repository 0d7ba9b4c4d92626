"""Entries appended to a module's sections; indices of what is there do not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.module import MAGIC, Module
from nnjit_studio.wasm_file.sections import number_of, section

_NAMES = "type import function table memory tag global export start element data_count code data"
ORDER = tuple(number_of(name) for name in _NAMES.split())
"""The sections of a module, in the order of the binary format."""


def appended(module: Module, entries: Mapping[str, Sequence[bytes]]) -> bytes:
    """The module with entries at the ends of sections, which are made where they are missing."""
    missing = {number_of(name): new for name, new in entries.items() if new}
    out = [MAGIC]
    before = len(MAGIC)
    for found in module.sections:
        if found.id in ORDER:
            early = [n for n in missing if ORDER.index(n) < ORDER.index(found.id)]
            out += (_made(n, 0, b"", missing.pop(n)) for n in sorted(early, key=ORDER.index))
        if found.id in missing:
            count, at = leb.read_unsigned(module.data, found.start)
            out.append(_made(found.id, count, module.data[at : found.end], missing.pop(found.id)))
        else:
            out.append(module.data[before : found.end])
        before = found.end
    out += (_made(n, 0, b"", missing[n]) for n in sorted(missing, key=ORDER.index))
    return b"".join(out)


def count_of(module: Module, name: str) -> int:
    """Entries of a section."""
    found = next((s for s in module.sections if s.id == number_of(name)), None)
    return leb.read_unsigned(module.data, found.start)[0] if found else 0


def table_count(module: Module) -> int:
    """How many tables there are, imported ones included: the index of the next one."""
    return count_of(module, "table") + sum(i.kind == "table" for i in module.imports)


def _made(number: int, count: int, old: bytes, new: Sequence[bytes]) -> bytes:
    return section(number, leb.unsigned(count + len(new)) + old + b"".join(new))
