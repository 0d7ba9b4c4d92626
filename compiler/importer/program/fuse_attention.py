"""Attention as one call: QK^T, softmax and PV, where nothing else reads what is between.

Three kernels write the scores of all queries and keys to memory and read them three times; one
keeps those of a few queries in a small workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nnjit_studio.compiler.importer.program.fuse_pointwise import joined
from nnjit_studio.compiler.recognize.attention import Attention, recognize_attention
from nnjit_studio.compiler.recognize.softmax import recognize_softmax
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, is_append
from nnjit_studio.space.wasm.attention import ATTENTION

WIDE, MANY_KEYS = 96, 256
"""Wider heads over more keys stay three calls: on a GPU a tile's results crowd the registers, and
products of their own are expected to take 0.7 to 0.85 of the time (the cost models of space/, an
H200's constants; not measured). One query has no such tile."""


def pays(a: Attention) -> bool:
    """Whether one kernel is expected to be faster than three."""
    return a.queries == 1 or a.depth <= WIDE or a.keys <= MANY_KEYS


def fuse_attention(calls: ImportedCalls, root: Mapping[str, str]) -> ImportedCalls:
    """The same model with attention in one call each.

    Parameters
    ----------
    root
        What each view is a view of, by name: both are the same elements in the same order.
    """

    def source(name: str) -> str:
        return root.get(name, name)

    current = list(calls.calls)
    results = {source(value.name) for value in calls.outputs}
    for softmax in calls.calls:
        if recognize_softmax(softmax.program) is None or len(softmax.outputs) != 1:
            continue
        weights = source(softmax.outputs[0].name)
        scores = source(softmax.inputs[0].name)
        makers = [c for c in current if any(source(v.name) == scores for v in c.outputs)]
        readers = [c for c in current if any(source(v.name) == weights for v in c.inputs)]
        alone = sum(source(v.name) == scores for c in current for v in c.inputs) == 1
        alone = alone and sum(source(v.name) == weights for c in readers for v in c.inputs) == 1
        if len(makers) != 1 or len(readers) != 1 or not alone or {scores, weights} & results:
            continue
        made = _joined((makers[0], softmax, readers[0]), (scores, weights), source)
        gone = (makers[0], softmax)
        if made is not None and _undisturbed(current, *gone, readers[0], source):
            kept = (c for c in current if all(c is not g for g in gone))
            current = [made if c is readers[0] else c for c in kept]
    return replace(calls, calls=tuple(current))


_Source = Callable[[str], str]


def _joined(
    three: tuple[ProgramCall, ProgramCall, ProgramCall], between: tuple[str, str], source: _Source
) -> ProgramCall | None:
    """The three calls as one, at the place of the last; None where that is no attention."""
    first, *later = three
    if len(first.outputs) != 1 or len(later[-1].outputs) != 1:
        return None
    program, inputs, nodes = first.program, first.inputs, first.origin.nodes
    for call, name in zip(later, between, strict=True):
        given = zip(call.program.buffers, call.inputs, strict=False)
        inside = {buffer.name for buffer, value in given if source(value.name) == name}
        program = joined(program, call.program, inside)
        inputs = (*inputs, *(v for v in call.inputs if source(v.name) != name))
        nodes = (*nodes, *call.origin.nodes)
    program = replace(program, name=ATTENTION)
    found = recognize_attention(program)
    if found is None or not pays(found):
        return None
    last = later[-1]
    origin = replace(last.origin, nodes=tuple(dict.fromkeys(nodes)))
    return ProgramCall(program, inputs, last.outputs, origin)


def _undisturbed(
    calls: list[ProgramCall],
    first: ProgramCall,
    softmax: ProgramCall,
    last: ProgramCall,
    source: _Source,
) -> bool:
    """Whether both calls may run as late as the last: no append between writes what they read."""
    read = {source(v.name) for call in (first, softmax) for v in call.inputs}
    begin, end = (next(i for i, c in enumerate(calls) if c is call) for call in (first, last))
    between = calls[begin + 1 : end]
    appends = (c for c in between if is_append(c.program))
    return not any(read & {source(v.name) for v in c.inputs} for c in appends)
