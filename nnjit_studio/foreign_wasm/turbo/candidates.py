"""The functions of a file in which a loop could be faster, each with what to try."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.apart import Part, each, parts_of
from nnjit_studio.foreign_wasm.turbo.loops.find import Function, Loop, decoded, vector_loops
from nnjit_studio.foreign_wasm.turbo.loops.operators import F32X4_MADD, F64X2_NMADD
from nnjit_studio.foreign_wasm.turbo.loops.variants import Variant, variants
from nnjit_studio.wasm_file.instructions import decode
from nnjit_studio.wasm_file.module import Module
from nnjit_studio.wasm_file.parts import Limits

MOST_BYTES = 512 * 2**20
PART_BYTES, MOST_PARTS = 1 << 20, 16
"""Of a file that a process looks through at a time, and into how many parts it is cut."""
_PLAIN_LOOP = b"\x03\x40"
_VECTOR = b"\xfd"
"""Begins every vector instruction."""
_VECTOR_ARITHMETIC = re.compile(rb"\xfd[\x60-\x7f]|\xfd[\x80-\xff][\x01\x02]")
"""Found in every body that calculates with vectors, and in few others."""


@dataclass(frozen=True)
class Candidate:
    """A function and those of its loops that have other bodies to measure."""

    function: Function
    loops: tuple[tuple[Loop, tuple[Variant, ...]], ...]


@dataclass
class Found:
    """What a module holds.

    Attributes
    ----------
    vector_loops
        Loops of one block that carry vectors.
    fused
        How many of them multiply and add in one instruction already.
    left_alone
        Why other loops and functions were not looked at, with their number.
    """

    candidates: list[Candidate] = field(default_factory=list)
    vector_loops: int = 0
    fused: int = 0
    left_alone: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Looked:
    """A file that was looked through.

    Attributes
    ----------
    memory
        The first one of the module, if it has any.
    functions
        How many it defines.
    vectors
        Whether one of them has a vector instruction.
    names
        Of the candidates that have one.
    """

    sha256: str
    memory: Limits | None
    functions: int
    vectors: bool
    names: dict[int, str]
    found: Found


def look(file: Path, registers: int, fma: bool, note: Callable[[str], None]) -> Looked:
    """Look through a file, in processes of its own.

    Raises
    ------
    WasmError
        When it is no module, too large, or takes more time or memory than allowed.
    Stopped
    """
    parts = parts_of(file, PART_BYTES, MOST_PARTS)
    if parts[0].nbytes > MOST_BYTES:
        raise WasmError(f"{file.name} has more than {MOST_BYTES >> 20} MiB.")
    note(f"Looking through {file.name}.")
    looked: list[Looked] = []
    for one in each(_look_through, parts, registers, fma):
        looked.append(one)
        if len(looked) < len(parts):
            note(f"Looking through {file.name}: {len(looked)} of {len(parts)} parts.")
    found = [one.found for one in looked]
    together = Found(
        sorted((c for f in found for c in f.candidates), key=lambda c: c.function.index),
        sum(f.vector_loops for f in found),
        sum(f.fused for f in found),
        sum((f.left_alone for f in found), Counter()),
    )
    return replace(
        max(looked, key=lambda one: one.sha256),
        vectors=any(one.vectors for one in looked),
        names={index: name for one in looked for index, name in one.names.items()},
        found=together,
    )


def _look_through(module: Module, part: Part, registers: int, fma: bool) -> Looked:
    functions = part.functions(module)
    found = find(module, registers, fma, functions)
    indices = [candidate.function.index for candidate in found.candidates]
    return Looked(
        hashlib.sha256(module.data).hexdigest() if part.first else "",
        module.memories[0] if module.memories else None,
        len(module.bodies),
        bool(found.vector_loops) or has_vectors(module, functions),
        {index: name for index in indices if (name := module.name_of(index))},
        found,
    )


def has_vectors(module: Module, functions: Iterable[int]) -> bool:
    """Whether one of the functions has a vector instruction."""
    for index in functions:
        data = module.body(index)
        if _VECTOR not in data:
            continue
        with contextlib.suppress(WasmError):
            if any(code.opcode >> 16 == _VECTOR[0] for code in decode(data).instructions):
                return True
    return False


def find(
    module: Module, registers: int, fma: bool, functions: Iterable[int] | None = None
) -> Found:
    """Look through functions, by default all; one that cannot be decoded is left alone."""
    found = Found()
    for index in module.defined if functions is None else functions:
        data = module.body(index)
        if _PLAIN_LOOP not in data or not _VECTOR_ARITHMETIC.search(data):
            continue
        try:
            function = decoded(module, index)
            loops = list(vector_loops(function))
        except WasmError as error:
            found.left_alone[error.error] += 1
            continue
        cases = []
        for loop in loops:
            if isinstance(loop, str):
                found.left_alone[loop] += 1
                continue
            found.vector_loops += 1
            codes = {loop.graph.nodes[n].code for n in loop.graph.order}
            found.fused += any(F32X4_MADD <= code <= F64X2_NMADD for code in codes)
            if bodies := tuple(variants(loop.graph, registers, fma)):
                cases.append((loop, bodies))
        if cases:
            found.candidates.append(Candidate(function, tuple(cases)))
    return found
