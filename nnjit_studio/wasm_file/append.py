"""Entries appended to a module's sections; indices of what is there do not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.module import MAGIC, SECTIONS, Module
from nnjit_studio.wasm_file.sections import section

_NAMES = "type import function table memory tag global export start element data_count code data"
ORDER = tuple(SECTIONS.index(name) for name in _NAMES.split())
"""The sections of a module, in the order of the binary format."""


def appended(module: Module, entries: Mapping[str, Sequence[bytes]]) -> bytes:
    """The module with entries at the ends of sections, which are made where they are missing."""
    missing = {SECTIONS.index(name): new for name, new in entries.items() if new}
    out = [MAGIC]
    at = len(MAGIC)
    for found in module.sections:
        if found.id in ORDER:
            place = ORDER.index(found.id)
            early = [n for n in ORDER[:place] if n in missing]
            out += (_made(n, 0, b"", missing.pop(n)) for n in early)
        if found.id in missing:
            count, start = leb.read_unsigned(module.data, found.start)
            rest = module.data[start : found.end]
            out.append(_made(found.id, count, rest, missing.pop(found.id)))
        else:
            out.append(module.data[at : found.end])
        at = found.end
    return b"".join((*out, *(_made(n, 0, b"", missing[n]) for n in ORDER if n in missing)))


def table_count(module: Module) -> int:
    """How many tables there are, imported ones too: the index of the next one."""
    own = next((s for s in module.sections if s.id == SECTIONS.index("table")), None)
    count = leb.read_unsigned(module.data, own.start)[0] if own else 0
    return count + sum(i.kind == "table" for i in module.imports)


def _made(number: int, count: int, old: bytes, new: Sequence[bytes]) -> bytes:
    return section(number, leb.unsigned(count + len(new)) + old + b"".join(new))
