"""Writing modules: replaced and added functions, and a few functions lifted out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.instructions import CODES, Instruction, decode, encode
from nnjit_studio.wasm_file.module import MAGIC, SECTIONS, Module, Section
from nnjit_studio.wasm_file.opcodes import NAMES
from nnjit_studio.wasm_file.sections import sized, text, vector

TYPE, IMPORT, FUNCTION, MEMORY, GLOBAL, EXPORT, CODE = (
    SECTIONS.index(name)
    for name in ("type", "import", "function", "memory", "global", "export", "code")
)
CALLS = {CODES["call"], CODES["return_call"]}
GLOBALS = {CODES["global.get"], CODES["global.set"]}
# What refers to parts of the module that a lifted function does not take along.
FOREIGN = (
    "table.",
    "elem.",
    "data.",
    "memory.init",
    "ref.func",
    "throw",
    "catch",
    "try",
    "suspend",
)
FOREIGN_CODES = {code for code, name in NAMES.items() if name.startswith(FOREIGN)} | {
    CODES[name]
    for name in ("call_indirect", "return_call_indirect", "resume", "resume_throw", "switch")
}
ZERO = {0x7F: "i32.const", 0x7E: "i64.const", 0x7D: "f32.const", 0x7C: "f64.const"}


def replace(
    module: Module, bodies: Mapping[int, bytes], added: Sequence[tuple[int, bytes]] = ()
) -> bytes:
    """The module with other bodies for some functions, and functions added at its end.

    Everything but the code section, and with added functions the function
    section, is copied byte for byte, and so are the other bodies. The module's
    byte offsets change, so debug information and branch hints become stale.

    Parameters
    ----------
    bodies
        New bodies (locals and code, without size) by function index.
    added
        Type index and body of each new function; they follow the last function
        in the order given.

    Raises
    ------
    WasmError
        When an index is not that of a defined function, or functions are added to
        a module without code.
    """
    unknown = [index for index in bodies if index not in module.defined]
    if unknown:
        raise WasmError(f"The module defines no function {unknown[0]}.")
    changed = {CODE: _code_section(module, bodies, [body for _, body in added])}
    if added:
        changed[FUNCTION] = _function_section(module, [type_ for type_, _ in added])
    present = {section.id for section in module.sections}
    if added and not present >= changed.keys():
        raise WasmError("Functions can only be added to a module that has some.")
    out: list[bytes] = []
    at = 0
    for section in module.sections:
        if section.id in changed:
            head = _size_start(module.data, section)
            width = section.start - head
            contents = changed[section.id]
            out += (module.data[at:head], leb.unsigned(len(contents), width), contents)
            at = section.end
    out.append(module.data[at:])
    return b"".join(out)


def _size_start(data: bytes, section: Section) -> int:
    """The offset of a section's size, found from its end: the id before it is below 0x80."""
    at = section.start - 1
    while data[at - 1] >= 0x80:
        at -= 1
    return at


def _section(module: Module, code: int) -> Section | None:
    return next((section for section in module.sections if section.id == code), None)


def _count(module: Module, section: Section, extra: int) -> tuple[bytes, int]:
    """The count of a section plus ``extra``, as wide as it was, and the offset behind the old."""
    count, at = leb.read_unsigned(module.data, section.start)
    return leb.unsigned(count + extra, at - section.start), at


def _function_section(module: Module, types: Sequence[int]) -> bytes:
    section = _section(module, FUNCTION)
    if section is None:
        return b""
    count, at = _count(module, section, len(types))
    return count + module.data[at : section.end] + b"".join(map(leb.unsigned, types))


def _code_section(module: Module, bodies: Mapping[int, bytes], added: Sequence[bytes]) -> bytes:
    section = _section(module, CODE)
    if section is None:
        return b""
    count, at = _count(module, section, len(added))
    out = [count]
    first = at
    for index in sorted(bodies):
        n = index - module.imported_functions
        start, end = module.bodies[n]
        # Between the end of the body before and the start of this one stands its size.
        size = module.bodies[n - 1].end if n else first
        out += (module.data[at:size], leb.unsigned(len(bodies[index]), start - size), bodies[index])
        at = end
    out.append(module.data[at : section.end])
    out += (leb.unsigned(len(body)) + body for body in added)
    return b"".join(out)


def lift(module: Module, indices: Sequence[int], pages: int | None = None) -> bytes:
    """A small module with the given functions exported as ``f{index}``.

    Calls between them stay calls; other callees are imported as ``env.f{index}``.
    The globals that they use become its own, start at zero and are exported as
    ``g{index}``.

    Parameters
    ----------
    pages
        Size of the module's own memory, exported as ``memory``; without it
        the memory is imported as ``env.memory``.

    Raises
    ------
    WasmError
        When a function uses a table, a tag, data segments, a second memory or
        what cannot be decoded.
    """
    codes = {index: module.body(index) for index in indices}
    decoded = {index: decode(code).instructions for index, code in codes.items()}
    used = [i for instructions in decoded.values() for i in instructions]
    for instruction in used:
        if instruction.opcode in FOREIGN_CODES:
            name = NAMES[instruction.opcode]
            raise WasmError(f"The function cannot stand alone: it uses {name}.")
    globals_ = sorted({i.immediates[0] for i in used if i.opcode in GLOBALS})
    callees = {i.immediates[0] for i in used if i.opcode in CALLS}
    outside = sorted(callees - codes.keys())
    order = {index: n for n, index in enumerate((*outside, *indices))}
    places = {index: n for n, index in enumerate(globals_)}
    type_section = _section(module, TYPE)
    types = module.data[type_section.start : type_section.end] if type_section else b"\0"
    renumbered = {**dict.fromkeys(CALLS, order), **dict.fromkeys(GLOBALS, places)}
    new = [sized(relinked(codes[index], decoded[index], renumbered)) for index in indices]
    memory = _memory(module, pages)
    parts = (
        (TYPE, types),
        (IMPORT, _imports(module, outside, memory if pages is None else b"")),
        (FUNCTION, vector([leb.unsigned(module.type_index(index)) for index in indices])),
        (MEMORY, vector([memory] if pages is not None and memory else [])),
        (GLOBAL, vector([_zero_global(module, index) for index in globals_])),
        (EXPORT, _exports(indices, order, globals_, pages is not None and bool(memory))),
        (CODE, vector(new)),
    )
    return MAGIC + b"".join(bytes([code]) + sized(data) for code, data in parts if data != b"\0")


def relinked(
    body: bytes,
    instructions: Sequence[Instruction],
    renumbered: Mapping[int, Mapping[int, int]],
) -> bytes:
    """A body with other indices: by opcode, the new index of each old one."""

    def pieces() -> Iterator[bytes]:
        yield body[: instructions[0].start]
        for opcode, immediates, start, end in instructions:
            indices = renumbered.get(opcode)
            yield encode(opcode, (indices[immediates[0]],)) if indices else body[start:end]

    return b"".join(pieces())


def _memory(module: Module, pages: int | None) -> bytes:
    """The type of the lifted module's memory; empty when the module has none."""
    if not module.memories:
        return b""
    flags, minimum, maximum = module.memories[0]
    size = minimum if pages is None else pages
    largest = b"" if maximum is None else leb.unsigned(max(maximum, size))
    return bytes([flags & 7]) + leb.unsigned(size) + largest


def _imports(module: Module, functions: Sequence[int], memory: bytes) -> bytes:
    items = [
        text("env") + text(f"f{index}") + b"\0" + leb.unsigned(module.type_index(index))
        for index in functions
    ]
    if memory:
        items.append(text("env") + text("memory") + b"\2" + memory)
    return vector(items)


def _zero_global(module: Module, index: int) -> bytes:
    type_ = module.globals[index].type
    if type_[0] not in ZERO:
        raise WasmError(f"The function cannot stand alone: global {index} is no plain number.")
    width = {"f32.const": 4, "f64.const": 8}.get(ZERO[type_[0]], 1)
    return type_ + b"\1" + bytes([CODES[ZERO[type_[0]]]]) + bytes(width) + b"\x0b"


def _exports(
    indices: Sequence[int], order: Mapping[int, int], globals_: Sequence[int], memory: bool
) -> bytes:
    items = [text(f"f{index}") + b"\0" + leb.unsigned(order[index]) for index in indices]
    items += [text(f"g{index}") + b"\3" + leb.unsigned(n) for n, index in enumerate(globals_)]
    if memory:
        items.append(text("memory") + b"\2\0")
    return vector(items)
