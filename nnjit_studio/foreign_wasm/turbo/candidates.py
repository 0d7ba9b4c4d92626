"""The functions of a module in which a loop could be faster, each with what to try."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.turbo.loops.find import Function, Loop, decoded, vector_loops
from nnjit_studio.foreign_wasm.turbo.loops.operators import F32X4_MADD, F64X2_NMADD
from nnjit_studio.foreign_wasm.turbo.loops.variants import Variant, variants
from nnjit_studio.support.stopping import check
from nnjit_studio.wasm_file.instructions import decode
from nnjit_studio.wasm_file.module import Module

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


def has_vectors(module: Module) -> bool:
    """Whether a function has a vector instruction."""
    for index in module.defined:
        check()
        data = module.body(index)
        if _VECTOR not in data:
            continue
        with contextlib.suppress(WasmError):
            if any(code.opcode >> 16 == _VECTOR[0] for code in decode(data).instructions):
                return True
    return False


def find(module: Module, registers: int, fma: bool) -> Found:
    """Look through all functions; one that cannot be decoded is left alone."""
    found = Found()
    for index in module.defined:
        check()
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
