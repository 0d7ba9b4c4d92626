"""Modules that hold one function of a stranger's module, so that its compilation can be timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.edit import relinked
from nnjit_studio.wasm_file.instructions import CODES, decode
from nnjit_studio.wasm_file.module import MAGIC, SECTIONS, Module
from nnjit_studio.wasm_file.sections import section, sized, vector

STUB = b"\0\0\x0b"
"""``unreachable``, which is valid whatever a function returns."""
REFERENCE = CODES["ref.func"]
DIRECT = {CODES["call"], CODES["return_call"], REFERENCE}
ELEMENT, DATA_COUNT, CODE = (SECTIONS.index(name) for name in ("element", "data_count", "code"))
_DROPPED = {SECTIONS.index(name) for name in ("custom", "export", "start")} | {ELEMENT}


class Isolated(NamedTuple):
    """The function alone, and the same module with a stub in its place."""

    module: bytes
    stub: bytes


def isolate(module: Module, index: int) -> Isolated:
    """The function ``index`` with what an engine needs to compile it, for no engine to run.

    Types, imports, tables, memories, globals and tags stay; data segments are
    emptied. Functions that it calls are stubs, other functions are left out. An
    engine that inlines must be told not to: it would inline a stub's trap and drop
    what follows the call as dead.

    Raises
    ------
    WasmError
        When the function cannot be decoded.
    """
    body = module.body(index)
    instructions = decode(body).instructions
    targets = {i.immediates[0] for i in instructions if i.opcode in DIRECT} - {index}
    functions = [index, *sorted(t for t in targets if t >= module.imported_functions)]
    order = {t: t for t in targets}  # imported functions keep their places
    order |= {t: module.imported_functions + n for n, t in enumerate(functions)}
    referred = sorted({i.immediates[0] for i in instructions if i.opcode == REFERENCE})
    stubs = [STUB] * (len(functions) - 1)

    def written(first: bytes) -> bytes:
        return MAGIC + b"".join(
            section(code, contents)
            for code, contents in _sections(
                module, functions, [first, *stubs], [order[i] for i in referred]
            )
        )

    alone = relinked(body, instructions, dict.fromkeys(DIRECT, order))
    return Isolated(written(alone), written(STUB))


def _sections(
    module: Module,
    functions: Sequence[int],
    bodies: Sequence[bytes],
    referred: Sequence[int],
) -> list[tuple[int, bytes]]:
    """Ids and contents, in the order of the format."""
    out: list[tuple[int, bytes]] = []
    declared = vector([b"\3\0" + vector([leb.unsigned(i) for i in referred])])
    for found in module.sections:
        if referred and found.id in (DATA_COUNT, CODE) and (ELEMENT, declared) not in out:
            out.append((ELEMENT, declared))
        name = SECTIONS[found.id] if found.id < len(SECTIONS) else ""
        contents = module.data[found.start : found.end]
        if name == "function":
            contents = vector([leb.unsigned(module.type_index(i)) for i in functions])
        elif name == "code":
            contents = vector([sized(body) for body in bodies])
        elif name == "data":
            contents = vector([b"\1\0"] * leb.read_unsigned(contents, 0)[0])
        if found.id not in _DROPPED:
            out.append((found.id, contents))
    return out
