"""A function replaced by a donor, with the original kept for calls whose operands overlap.

A donor reads several rows before it writes one. Where C lies over A or B, which no known caller
does, that gives other values than the original; there the original runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnjit_studio.compiler.wasm.encode import encode_body
from nnjit_studio.compiler.wasm.ir import Call, Const, Function, IfElse, LocalGet, Node, Op
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import (
    COUNT_K,
    COUNT_M,
    COUNT_N,
    LDA,
    LDC,
    PANEL,
    PARAMS,
    A,
    B,
    C,
    Mode,
    Tile,
    sgemm,
)
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.module import Module


@dataclass(frozen=True)
class Donor:
    """What replaces a function: the kernel of this mode, with this tile."""

    mode: Mode
    tile: Tile
    fma: bool


def replace(module: Module, donors: Mapping[int, Donor]) -> bytes:
    """The module with these functions replaced and their originals appended for the guard.

    Parameters
    ----------
    donors
        By index of function; each has been proven to do what its donor does, and its callers have
        been looked at (:func:`nnjit_studio.foreign_wasm.turbo.kernels.callers.refused`).
    """
    first = module.defined.stop
    bodies: dict[int, bytes] = {}
    added: list[tuple[int, bytes]] = []
    for index, donor in donors.items():
        type_ = module.type_index(index)
        original = first + len(added)
        added += [
            (type_, module.body(index)),
            (type_, encode_body(sgemm(donor.mode, donor.tile, donor.fma))),
        ]
        bodies[index] = encode_body(guarded(original, original + 1))
    return edit.replace(module, bodies, added)


def guarded(original: int, donor: int) -> Function:
    """Calls the donor, or the original where C overlaps A or B."""
    given = tuple(LocalGet(n) for n in range(len(PARAMS)))
    function = Function(PARAMS.copy())
    columns = Op("i64.and", (Op("i64.add", (_wide(COUNT_N), _i64(PANEL - 1))), _i64(-PANEL)))
    floats: dict[int, Node] = {
        A: Op("i64.mul", (_wide(COUNT_M), _wide(LDA))),
        B: Op("i64.mul", (_wide(COUNT_K), columns)),
        C: Op("i64.mul", (_wide(COUNT_M), _wide(LDC))),
    }
    either = Op("i32.or", (_overlap(C, A, floats), _overlap(C, B, floats)))
    function.body = [IfElse(either, [Call(original, given)], [Call(donor, given)], "i32")]
    return function


def _overlap(one: int, other: int, floats: Mapping[int, Node]) -> Node:
    """Whether two ranges of floats meet; in 64 bits, where no sum of sizes wraps."""
    ends = {n: Op("i64.add", (_wide(n), Op("i64.shl", (floats[n], _i64(2))))) for n in (one, other)}
    return Op(
        "i32.and",
        (
            Op("i64.lt_u", (_wide(one), ends[other])),
            Op("i64.lt_u", (_wide(other), ends[one])),
        ),
    )


def _wide(parameter: int) -> Node:
    return Op("i64.extend_i32_u", (LocalGet(parameter),))


def _i64(value: int) -> Const:
    return Const("i64", value)
