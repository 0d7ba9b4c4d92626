"""Proof that a function's new body computes what the old one did, from the bytes alone.

The proof shares only the lifting with what wrote the new body: it reads the new bytes again and
compares the value graphs of each pair of loops in one set of nodes, where equal values have equal
numbers. Outside of these loops the instructions must be the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.turbo.loops.find import Function, Loop, vector_loops
from nnjit_studio.foreign_wasm.turbo.loops.graph import LoopGraph, Nodes, reach
from nnjit_studio.foreign_wasm.turbo.loops.lift import NotLiftable, lift
from nnjit_studio.foreign_wasm.turbo.loops.rules import broadcasts_from_memory, unfused
from nnjit_studio.wasm_file.flow.nest import END, loops
from nnjit_studio.wasm_file.instructions import decode


def difference(old: Function, data: bytes, fma: bool) -> str:
    """Why the new body is not proven to be the old function; empty when it is.

    Parameters
    ----------
    fma
        Whether a product and its sum may be rounded once.
    """
    try:
        body = decode(data)
        starts = [loop.start + 1 for loop in loops(body)]
    except WasmError as error:
        return f"the new body cannot be read: {error.error}"
    if not body.locals.startswith(old.body.locals):
        return "the new body declares other locals"
    new = Function(old.index, data, body, old.types + body.locals[len(old.body.locals) :])
    places = [loop.start + 1 for loop in loops(old.body)]
    if len(starts) != len(places):
        return "the new body has another number of loops"
    changeable = {found.first: found for found in vector_loops(old) if isinstance(found, Loop)}
    at = (0, 0)
    for place, start in zip(places, starts, strict=True):
        loop = changeable.get(place)
        if loop is None:
            continue
        stop = _stop(new, start)
        if _between(old, at[0], place) != _between(new, at[1], start):
            return "instructions outside of its loops differ"
        if reason := _loop_difference(old, loop, new, (start, stop), fma):
            return reason
        at = (loop.stop, stop)
    same = _between(old, at[0], None) == _between(new, at[1], None)
    return "" if same else "instructions outside of its loops differ"


def _stop(function: Function, start: int) -> int:
    """One past the last instruction of the loop's body that begins there."""
    code = function.body.instructions
    return next(at for at in range(start, len(code)) if code[at].opcode == END)


def _between(function: Function, first: int, stop: int | None) -> Sequence[bytes]:
    code = function.body.instructions[first:stop]
    return [function.data[i.start : i.end] for i in code]


def _loop_difference(
    old: Function, loop: Loop, new: Function, place: tuple[int, int], fma: bool
) -> str:
    if _between(old, loop.first, loop.stop) == _between(new, *place):
        return ""
    nodes = Nodes()
    before = lift(nodes, old.data, old.body.instructions[loop.first : loop.stop], old.types)
    try:
        after = lift(nodes, new.data, new.body.instructions[slice(*place)], new.types)
    except NotLiftable as reason:
        return f"a loop cannot be read: {reason}"
    if reach(before) != reach(after):
        return "a loop reads memory in other places"
    wanted, written = _normal(before, fma), _normal(after, fma)
    if wanted.condition != written.condition:
        return "a loop ends under another condition"
    own = {local: n for local, n in written.finals.items() if local < len(old.types)}
    kept = {local: wanted.finals[local] for local in loop.graph.finals}
    if own.keys() != kept.keys():
        return "a loop changes other locals"
    wrong = [local for local in kept if own[local] != kept[local]]
    return f"local {wrong[0]} gets another value in a loop" if wrong else ""


def _normal(graph: LoopGraph, fma: bool) -> LoopGraph:
    graph = broadcasts_from_memory(graph)
    return unfused(graph) if fma else graph
