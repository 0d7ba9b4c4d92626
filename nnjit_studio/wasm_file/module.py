"""Reading somebody's Wasm module: sections, types, functions and names.

After the binary format of the WebAssembly core specification, section 5, with
the forms of garbage collection, threads, 64-bit memories and exceptions. Code is
not decoded here, only found; whether it is valid is for an engine to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file.cursor import Cursor
from nnjit_studio.wasm_file.parts import (
    Export,
    FunctionType,
    GlobalType,
    Import,
    Limits,
    read_export,
    read_global,
    read_imports,
    read_limits,
    read_names,
    read_tag,
    read_types,
)

MAGIC = b"\0asm\1\0\0\0"
COMPONENT = b"\0asm\x0d\0\1\0"
MAX_BYTES = 1 << 30
"""What V8 takes."""

SECTIONS = (
    *("custom", "type", "import", "function", "table", "memory", "global", "export", "start"),
    *("element", "code", "data", "data_count", "tag"),
)


class Span(NamedTuple):
    """Offsets in the module's bytes."""

    start: int
    end: int


class Section(NamedTuple):
    """A section: its contents without id and size; ``name`` is that of a custom section."""

    id: int
    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Module:
    """What a module contains.

    Function indices count imported functions first, as Wasm does; ``functions``
    and ``bodies`` have an entry for each function that the module defines.
    ``types`` has None where a type is no function type. ``globals``,
    ``memories`` and ``tags`` (type indices) hold imported ones first.
    """

    data: bytes = field(repr=False)
    types: tuple[FunctionType | None, ...]
    imports: tuple[Import, ...]
    functions: tuple[int, ...]
    exports: tuple[Export, ...]
    globals: tuple[GlobalType, ...]
    memories: tuple[Limits, ...]
    tags: tuple[int, ...]
    imported_functions: int
    imported_types: tuple[int, ...]
    bodies: tuple[Span, ...]
    sections: tuple[Section, ...]
    names: Mapping[int, str]
    start: int | None

    def type_index(self, index: int) -> int:
        """The index of the type of function ``index``."""
        if index < self.imported_functions:
            return self.imported_types[index]
        return self.functions[index - self.imported_functions]

    def type_of(self, index: int) -> FunctionType:
        """The type of function ``index``."""
        type_ = self.types[self.type_index(index)]
        if type_ is None:
            raise WasmError(f"The type of function {index} is no function type.")
        return type_

    def body(self, index: int) -> bytes:
        """The body of the defined function ``index``, without its size."""
        start, end = self.bodies[index - self.imported_functions]
        return self.data[start:end]

    @property
    def defined(self) -> range:
        """The indices of the functions that the module defines."""
        return range(self.imported_functions, self.imported_functions + len(self.bodies))

    def share(self, n: int, of: int) -> list[int]:
        """The defined functions in part ``n``: every ``of``-th by size, so that parts are alike."""
        sizes = [end - start for start, end in self.bodies]
        ranked = sorted(range(len(sizes)), key=lambda i: -sizes[i])
        return sorted(i + self.imported_functions for i in ranked[n::of])

    def name_of(self, index: int) -> str:
        """The name of function ``index``, empty when it has none."""
        return self.names.get(index, "")


def read(data: bytes) -> Module:
    """Read a module's sections; linear in the size of the file.

    Raises
    ------
    WasmError
        When the bytes are not a module, are malformed, or hold more than a
        gigabyte.
    """
    if data.startswith(COMPONENT):
        raise WasmError(
            "It is a component, not a core module.",
            "Unpack the modules in it and read one of them.",
        )
    if not data.startswith(MAGIC):
        raise WasmError("It is not a Wasm module: it does not begin with \\0asm and version 1.")
    if len(data) > MAX_BYTES:
        raise WasmError(f"The module has {len(data)} bytes, more than any engine takes.")
    sections = tuple(_sections(data))
    found = {section.id: section for section in sections if section.id}

    def cursor(name: str) -> Cursor | None:
        section = found.get(SECTIONS.index(name))
        return Cursor(data, section.start, section.end) if section else None

    types = tuple(read_types(c)) if (c := cursor("type")) else ()
    imports = tuple(read_imports(c)) if (c := cursor("import")) else ()
    functions = tuple(c.items(Cursor.unsigned)) if (c := cursor("function")) else ()
    exports = tuple(c.items(read_export)) if (c := cursor("export")) else ()
    own_globals = tuple(c.items(read_global)) if (c := cursor("global")) else ()
    own_memories = tuple(c.items(read_limits)) if (c := cursor("memory")) else ()
    bodies = tuple(c.items(_body)) if (c := cursor("code")) else ()
    own_tags = tuple(c.items(read_tag)) if (c := cursor("tag")) else ()
    start = c.unsigned() if (c := cursor("start")) else None
    imported = tuple(i.type for i in imports if i.kind == "func")
    if len(bodies) != len(functions):
        raise WasmError(f"The module declares {len(functions)} functions and has {len(bodies)}.")
    if any(index >= len(types) for index in (*imported, *functions)):
        raise WasmError("A function has a type that the module does not declare.")
    return Module(
        data=data,
        types=types,
        imports=imports,
        functions=functions,
        exports=exports,
        globals=(*(i.of_global for i in imports if i.of_global), *own_globals),
        memories=(*(i.limits for i in imports if i.kind == "memory" and i.limits), *own_memories),
        tags=(*(i.type for i in imports if i.kind == "tag"), *own_tags),
        imported_functions=len(imported),
        imported_types=imported,
        bodies=bodies,
        sections=sections,
        names=_names(data, sections, imports, exports),
        start=start,
    )


def _sections(data: bytes) -> list[Section]:
    cursor = Cursor(data, len(MAGIC), len(data))
    sections: list[Section] = []
    seen: set[int] = set()
    while cursor.at < cursor.end:
        code = cursor.byte()
        inner = cursor.part(cursor.unsigned())
        name = inner.name() if code == 0 else _section_name(code)
        if code and code in seen:
            raise WasmError(f"The module has two {name} sections.")
        seen.add(code)
        sections.append(Section(code, name, inner.at, inner.end))
    return sections


def _section_name(code: int) -> str:
    return SECTIONS[code] if code < len(SECTIONS) else f"section {code}"


def _body(cursor: Cursor) -> Span:
    inner = cursor.part(cursor.unsigned())
    return Span(inner.at, inner.end)


def _names(
    data: bytes,
    sections: tuple[Section, ...],
    imports: tuple[Import, ...],
    exports: tuple[Export, ...],
) -> Mapping[int, str]:
    """Names of functions: of the name section, else of an export or import."""
    functions = (i for i in imports if i.kind == "func")
    names = {n: f"{i.module}.{i.name}" for n, i in enumerate(functions)}
    names |= {e.index: e.name for e in reversed(exports) if e.kind == "func"}
    for section in sections:
        if section.id == 0 and section.name == "name":
            names |= read_names(Cursor(data, section.start, section.end))
    return names
