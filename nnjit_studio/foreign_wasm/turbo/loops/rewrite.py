"""Functions with other loop bodies."""

from __future__ import annotations

from collections.abc import Mapping

from nnjit_studio.foreign_wasm.turbo.loops.emit import FreshLocals, emit
from nnjit_studio.foreign_wasm.turbo.loops.find import Function, Loop
from nnjit_studio.foreign_wasm.turbo.loops.variants import Variant
from nnjit_studio.wasm_file import leb

Choice = Mapping[int, tuple[Loop, Variant]]
"""By the position of a loop's first instruction."""


def rebuilt(function: Function, choice: Choice) -> bytes:
    """The function's body with these loops computed in another way; the rest byte for byte."""
    fresh = FreshLocals(len(function.types))
    code = function.body.instructions
    pieces: list[bytes] = []
    at = code[0].start
    for first in sorted(choice):
        loop, variant = choice[first]
        pieces.append(function.data[at : code[first].start])
        fresh.next_loop()
        pieces.append(emit(variant.graph, variant.plan.steps, fresh))
        at = code[loop.stop - 1].end
    pieces.append(function.data[at:])
    groups = [leb.unsigned(count) + kind for count, kind in function.body.groups] + fresh.groups()
    return b"".join((leb.unsigned(len(groups)), *groups, *pieces))
