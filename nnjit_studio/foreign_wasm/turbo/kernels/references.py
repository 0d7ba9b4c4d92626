"""Functions of a module that it can reach without a direct call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.cursor import Cursor
from nnjit_studio.wasm_file.instructions import CODES
from nnjit_studio.wasm_file.module import Module, Section
from nnjit_studio.wasm_file.parts import END, value_type
from nnjit_studio.wasm_file.tokens import fast

_PASSIVE, _EXPLICIT, _EXPRESSIONS = 1, 2, 4
"""Bits of an element segment's form (core spec, 5.5.12)."""
_REFERENCE = bytes((CODES["ref.func"],))


def referenced(module: Module, functions: Iterable[int]) -> frozenset[int]:
    """Those of the functions that tables, element segments or globals may refer to.

    Raises
    ------
    WasmError
        When an element segment is not understood.
    """
    wanted = frozenset(functions)
    found = {
        f for s in _parts(module, "table", "global") for f in wanted if _mentions(module, s, f)
    }
    for section in _parts(module, "element"):
        cursor = Cursor(module.data, section.start, section.end)
        for _ in range(cursor.unsigned()):
            found.update(wanted.intersection(_segment(cursor)))
    return frozenset(found)


def _parts(module: Module, *names: str) -> Iterator[Section]:
    return (s for s in module.sections if s.id and s.name in names)


def _mentions(module: Module, section: Section, function: int) -> bool:
    """By its bytes: something else may look alike, and then a function is left alone."""
    return _REFERENCE + leb.unsigned(function) in module.data[section.start : section.end]


def _segment(cursor: Cursor) -> list[int]:
    """The functions of one element segment."""
    form = cursor.unsigned()
    if not form & _PASSIVE:
        if form & _EXPLICIT:
            cursor.unsigned()
        _expression(cursor)
    if form & (_PASSIVE | _EXPLICIT):
        if form & _EXPRESSIONS:
            value_type(cursor)
        else:
            cursor.byte()
    if form & _EXPRESSIONS:
        return [f for found in cursor.items(_expression) for f in found]
    return cursor.items(Cursor.unsigned)


def _expression(cursor: Cursor) -> list[int]:
    """The functions that a constant expression refers to."""
    found: list[int] = []
    while True:
        match = fast().match(cursor.data, cursor.at, cursor.end)
        if match is None:
            raise WasmError("An element segment of the module is not understood.")
        cursor.at = match.end()
        token = match.group()
        if token[:1] == _REFERENCE:
            found.append(leb.read_unsigned(token, 1)[0])
        if token[0] == END:
            return found
