"""Attention as one call: QK^T, softmax and PV, where nothing else reads what is between.

Three kernels write the scores of all queries and keys to memory and read them three times; one
keeps those of a few queries in a small workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nnjit_studio.compiler.importer.program.fuse_pointwise import joined
from nnjit_studio.compiler.importer.program.views import behind
from nnjit_studio.compiler.recognize.attention import Attention, recognize_attention
from nnjit_studio.compiler.recognize.softmax import recognize_softmax
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, is_append
from nnjit_studio.space.wasm.attention import ATTENTION
from nnjit_studio.space.webgpu.attention import FEW_QUERIES

WIDE, MANY_KEYS = 96, 256
"""Wider heads over more keys stay three calls: on a GPU a tile's results crowd the registers and
the workgroup memory that every device has. On an H200 three kernels of 32 heads of 128, 128 queries
and 584 keys take 78 us, one takes 219 (first guesses; over 520 keys the best of 33 settings takes
74, with 35 KB of workgroup memory). One query has no such tile."""


def pays(a: Attention) -> bool:
    """Whether one kernel is expected to be faster than three."""
    return a.queries <= FEW_QUERIES or a.depth <= WIDE or a.keys <= MANY_KEYS


def fuse_attention(calls: ImportedCalls, root: Mapping[str, str]) -> ImportedCalls:
    """The same model with attention in one call each.

    Parameters
    ----------
    root
        What each view is a view of, by name: both are the same elements in the same order.
    """
    source = behind(root)
    fused: list[ProgramCall | None] = list(calls.calls)
    results = {source(value.name) for value in calls.outputs}
    maker = {source(v.name): i for i, call in enumerate(calls.calls) for v in call.outputs}
    readers: dict[str, list[int]] = {}
    for i, call in enumerate(calls.calls):
        for value in call.inputs:
            readers.setdefault(source(value.name), []).append(i)
    for i, softmax in enumerate(calls.calls):
        if recognize_softmax(softmax.program) is None or len(softmax.outputs) != 1:
            continue
        between = source(softmax.inputs[0].name), source(softmax.outputs[0].name)
        alone = all(len(readers.get(name, ())) == 1 for name in between)
        if not alone or between[0] not in maker or results & {*between}:
            continue
        first, last = maker[between[0]], readers[between[1]][0]
        three = calls.calls[first], softmax, calls.calls[last]
        made = _joined(three, between, source)
        if made is not None and _undisturbed(three, calls.calls[first + 1 : last], source):
            fused[first] = fused[i] = None
            fused[last] = made
    return replace(calls, calls=tuple(call for call in fused if call is not None))


_Source = Callable[[str], str]
_Three = tuple[ProgramCall, ProgramCall, ProgramCall]


def _joined(three: _Three, between: tuple[str, str], source: _Source) -> ProgramCall | None:
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


def _undisturbed(three: _Three, between: Sequence[ProgramCall], source: _Source) -> bool:
    """Whether all may run as late as the last: no append between writes what the others read."""
    read = {source(v.name) for call in three[:2] for v in call.inputs}
    appends = (c for c in between if is_append(c.program))
    return not any(read & {source(v.name) for v in c.inputs} for c in appends)
