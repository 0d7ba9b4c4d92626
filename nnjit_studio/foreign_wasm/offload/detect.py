"""The verdict of each loop of a module: offload as which pattern, or why it stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.offload.holders import check_held
from nnjit_studio.foreign_wasm.offload.lift.code import Code
from nnjit_studio.foreign_wasm.offload.lift.liveness import live_behind
from nnjit_studio.foreign_wasm.offload.lift.refusal import REASONS, Refused
from nnjit_studio.foreign_wasm.offload.lift.walk import Lifted, Walk
from nnjit_studio.foreign_wasm.offload.lower import Lowered, lower
from nnjit_studio.foreign_wasm.offload.nest import Nest, normalise
from nnjit_studio.wasm_file.instructions import decode
from nnjit_studio.wasm_file.module import Module

MOST_INSTRUCTIONS, MOST_DEPTH = 60_000, 200
"""Of a function; larger ones, and those with more blocks in one another, are left alone."""


@dataclass(frozen=True)
class Found:
    """A loop nest that can run on a GPU; ``body`` are the bytes of its function."""

    body: bytes
    code: Code
    lifted: Lifted
    nest: Nest
    lowered: Lowered


@dataclass(frozen=True)
class Place:
    """A function, and the instructions at which its loops begin."""

    function: int
    name: str
    loops: list[int]


@dataclass(frozen=True)
class Verdict:
    """What becomes of a loop.

    Attributes
    ----------
    loop
        Which of the function's loops, by the order of their beginnings.
    offset
        Of the loop in the function's body, in bytes.
    pattern
        Of what is offloaded: see :class:`Lowered`; empty where it stays.
    reason
        One of ``REASONS`` where it stays, otherwise empty; ``within`` of a loop that is
        offloaded with the one around it.
    """

    function: int
    name: str
    loop: int
    offset: int
    pattern: str = ""
    reason: str = ""
    found: Found | None = None

    @property
    def text(self) -> str:
        if self.pattern:
            return f"offload: {self.pattern}"
        return f"stays: {self.reason.replace('-', ' ')} ({REASONS[self.reason]})"


def verdicts(module: Module) -> Iterator[Verdict]:
    """The verdicts of a module's loops, function by function; loops in nests that are offloaded
    belong to these."""
    for index in module.defined:
        yield from of_function(module, index)


def of_function(module: Module, index: int) -> list[Verdict]:
    """The verdicts of one function; none where it cannot be decoded or has no loops."""
    try:
        data, type_ = module.body(index), module.type_of(index)
        body = decode(data)
    except WasmError:
        return []
    code = Code(body, type_.params + body.locals)
    loops = list(code.loops())
    if not loops:
        return []
    place = Place(index, module.name_of(index), loops)
    if len(body.instructions) > MOST_INSTRUCTIONS or code.depth > MOST_DEPTH:
        return [_stays(code, place, i, "size") for i in loops]
    walk = Walk(code, lambda f: _arity(module, module.type_index(f)), lambda t: _arity(module, t))
    try:
        walk.run(len(type_.params))
        live = live_behind(code, [lifted.end for lifted in walk.lifted]) if walk.lifted else {}
    except (WasmError, KeyError, IndexError):
        return [_stays(code, place, i, "instruction") for i in loops]
    results = [_stays(code, place, i, r) for i, r in walk.refused.items()]
    for lifted in walk.lifted:
        results += _lifted(data, code, place, lifted, live[lifted.end])
    return sorted(results, key=lambda v: v.loop)


def _lifted(
    body: bytes, code: Code, place: Place, lifted: Lifted, live: frozenset[int]
) -> list[Verdict]:
    try:
        nest = normalise(lifted, live)
        lowered = lower(nest)
        check_held(lifted, nest, lowered)
    except Refused as refused:
        return [_stays(code, place, lifted.begin, refused.reason)]
    at = code.instructions[lifted.begin].start
    found = Found(body, code, lifted, nest, lowered)
    number = place.loops.index(lifted.begin)
    return [Verdict(place.function, place.name, number, at, pattern=lowered.kind, found=found)]


def _stays(code: Code, place: Place, begin: int, reason: str) -> Verdict:
    at = code.instructions[begin].start
    return Verdict(place.function, place.name, place.loops.index(begin), at, reason=reason)


def _arity(module: Module, type_: int) -> tuple[int, int]:
    found = module.types[type_]
    if found is None:
        raise WasmError("A call has a type that is no function type.")
    return len(found.params), len(found.results)
