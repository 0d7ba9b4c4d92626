"""Entries of a module's sections: types, imports, exports, globals, memories, names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file.cursor import Cursor
from nnjit_studio.wasm_file.tokens import fast, item_end

KINDS = ("func", "table", "memory", "global", "tag")
FUNCTION, STRUCT, ARRAY, CONTINUATION = 0x60, 0x5F, 0x5E, 0x5D
RECURSIVE, SUB, SUB_FINAL, SHARED, DESCRIPTOR, DESCRIBES = 0x4E, 0x50, 0x4F, 0x65, 0x4D, 0x4C
END = 0x0B
EXACT_FUNCTION, GROUP, GROUP_OF_ONE_TYPE = 0x20, 0x7F, 0x7E
SHARED_MEMORY, WIDE_MEMORY = 2, 4
"""Flags of a memory that is shared, and of one that is addressed with 64 bits."""


class FunctionType(NamedTuple):
    """One type byte for each parameter and result; 0x63 and 0x64 are typed references."""

    params: bytes
    results: bytes


class Limits(NamedTuple):
    """Limits of a memory or table: flags as in the file (1 maximum, 2 shared, 4 64-bit)."""

    flags: int
    minimum: int
    maximum: int | None

    @property
    def shared(self) -> bool:
        return bool(self.flags & SHARED_MEMORY)

    @property
    def in_64_bits(self) -> bool:
        return bool(self.flags & WIDE_MEMORY)


class GlobalType(NamedTuple):
    """Type bytes of a global and whether it can be set."""

    type: bytes
    mutable: bool


class Import(NamedTuple):
    """``type`` is the type index of a function or tag, -1 otherwise."""

    module: str
    name: str
    kind: str
    type: int = -1
    limits: Limits | None = None
    of_global: GlobalType | None = None


@dataclass(frozen=True)
class Export:
    """What is exported under a name: ``index`` counts what has the same kind."""

    name: str
    kind: str
    index: int


def read_types(cursor: Cursor) -> Iterator[FunctionType | None]:
    """The types of the type section, recursive groups flattened."""
    for group in cursor.items(_group):
        yield from group


def _group(cursor: Cursor) -> list[FunctionType | None]:
    if cursor.peek() != RECURSIVE:
        return [_type(cursor)]
    cursor.byte()
    return cursor.items(_type)


def _type(cursor: Cursor) -> FunctionType | None:
    form = cursor.byte()
    if form in (SUB, SUB_FINAL):
        cursor.items(Cursor.unsigned)
        form = cursor.byte()
    while form in (DESCRIPTOR, DESCRIBES, SHARED):
        if form != SHARED:
            cursor.unsigned()
        form = cursor.byte()
    if form == FUNCTION:
        params, results = cursor.items(value_type), cursor.items(value_type)
        return FunctionType(*(b"".join(t[:1] for t in types) for types in (params, results)))
    if form == STRUCT:
        cursor.items(_field)
    elif form == ARRAY:
        _field(cursor)
    elif form == CONTINUATION:
        cursor.signed()
    else:
        raise WasmError(f"The module has a type of the unknown form {form:#x}.")
    return None


def value_type(cursor: Cursor) -> bytes:
    """The bytes of a value or packed type."""
    first = cursor.byte()
    if first not in (0x63, 0x64):
        return bytes([first])
    start = cursor.at
    cursor.at = item_end(cursor.data, start, "h")
    return bytes([first]) + cursor.data[start : cursor.at]


def _field(cursor: Cursor) -> None:
    value_type(cursor)
    cursor.byte()


def read_limits(cursor: Cursor) -> Limits:
    flags = cursor.byte()
    minimum = cursor.unsigned()
    maximum = cursor.unsigned() if flags & 1 else None
    if flags & 8:
        cursor.unsigned()
    return Limits(flags, minimum, maximum)


def _kind(cursor: Cursor) -> str:
    return _known_kind(cursor.byte())


def _known_kind(code: int) -> str:
    if code == EXACT_FUNCTION:
        return KINDS[0]
    if code >= len(KINDS):
        raise WasmError(f"The module imports or exports the unknown kind {code:#x}.")
    return KINDS[code]


def read_imports(cursor: Cursor) -> Iterator[Import]:
    """The imports of the import section, groups with one module name flattened."""
    for group in cursor.items(_import_group):
        yield from group


def _import_group(cursor: Cursor) -> list[Import]:
    module, name, code = cursor.name(), cursor.name(), cursor.byte()
    if code == GROUP:
        return cursor.items(lambda c: _import(c, module, c.name(), _kind(c)))
    if code == GROUP_OF_ONE_TYPE:
        common = _import(cursor, module, "", _kind(cursor))
        return cursor.items(lambda c: common._replace(name=c.name()))
    return [_import(cursor, module, name, _known_kind(code))]


def _import(cursor: Cursor, module: str, name: str, kind: str) -> Import:
    if kind == "func":
        return Import(module, name, kind, cursor.unsigned())
    if kind == "tag":
        return Import(module, name, kind, read_tag(cursor))
    if kind == "global":
        return Import(module, name, kind, of_global=_global_type(cursor))
    if kind == "table":
        value_type(cursor)
    return Import(module, name, kind, limits=read_limits(cursor))


def read_tag(cursor: Cursor) -> int:
    """The type index of a tag."""
    cursor.byte()
    return cursor.unsigned()


def read_export(cursor: Cursor) -> Export:
    return Export(cursor.name(), _kind(cursor), cursor.unsigned())


def read_global(cursor: Cursor) -> GlobalType:
    type_ = _global_type(cursor)
    # A constant expression has no blocks: it ends with its first end.
    while True:
        match = fast().match(cursor.data, cursor.at, cursor.end)
        if match is None:
            raise WasmError("The initial value of a global is not understood.")
        cursor.at = match.end()
        if match.group()[0] == END:
            return type_


def _global_type(cursor: Cursor) -> GlobalType:
    return GlobalType(value_type(cursor), bool(cursor.byte() & 1))


def read_names(cursor: Cursor) -> dict[int, str]:
    """Function names of a name section; as in engines, a malformed one counts as absent."""
    names: dict[int, str] = {}
    try:
        while cursor.at < cursor.end:
            code = cursor.byte()
            part = cursor.part(cursor.unsigned())
            if code == 1:
                names = dict(part.items(_name))
    except WasmError:
        return {}
    return names


def _name(cursor: Cursor) -> tuple[int, str]:
    index = cursor.unsigned()
    return index, cursor.take(cursor.unsigned()).decode("utf-8", "replace")
