"""Small calls that compute single numbers around bytes become one.

A tensor that is quantised as it comes has its scale and its zero point from a chain of six such
calls. Each is a step of the plan, and on a GPU a dispatch, for next to no work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.importer.program.merge_siblings import in_one
from nnjit_studio.compiler.importer.program.views import behind
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.templates import match
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall
from nnjit_studio.compiler.wgsl.core.groups import MAX_BUFFERS

_MOST_POINTS = 1 << 12
"""That such a call may walk over: a few microseconds of one thread."""


@dataclass
class _Line:
    """Calls that become one, in their order, at the place of the first."""

    calls: list[ProgramCall]
    numbers: bool


def merge_numbers(calls: ImportedCalls, root: Mapping[str, str]) -> ImportedCalls:
    """The same model with fewer calls: numbers are computed as soon as others were.

    Parameters
    ----------
    root
        What each view is a view of, by name.
    """
    source = behind(root)
    around = _around_bytes(calls.calls)
    made: dict[str, int] = {}
    lines: list[_Line] = []
    for call in calls.calls:
        ready = max((made.get(source(v.name), -1) for v in call.inputs), default=-1)
        numbers = id(call) in around
        places = range(len(lines) - 1, max(ready, 0) - 1, -1) if numbers else ()
        at = next((i for i in places if lines[i].numbers and _fits(lines[i].calls, call)), None)
        if at is None:
            at = len(lines)
            lines.append(_Line([], numbers))
        lines[at].calls.append(call)
        made.update((value.name, at) for value in call.outputs)
    read = {source(value.name) for value in calls.outputs}
    kept: list[ProgramCall] = []
    for line in reversed(lines):
        own = {v.name for c in line.calls for v in c.outputs}
        alone = len(line.calls) == 1
        kept.append(line.calls[0] if alone else in_one(line.calls, "numbers", own & read))
        read |= {source(v.name) for v in kept[-1].inputs}
    return replace(calls, calls=tuple(reversed(kept)))


def _around_bytes(calls: Sequence[ProgramCall]) -> set[int]:
    """Of calls that compute numbers: those that make or read one in bytes, and whoever shares a
    number with them."""
    numbers = [call for call in calls if _is_number(call)]
    shared = {
        id(call): {v.name for v in (*call.inputs, *call.outputs) if math.prod(v.shape) == 1}
        for call in numbers
    }
    found = {id(c) for c in numbers if any(b.dtype in BYTES for b in c.program.buffers)}
    count = 0
    while count < len(found):
        count = len(found)
        names = set().union(*(shared[i] for i in found))
        found |= {i for i, own in shared.items() if own & names}
    return found


def _is_number(call: ProgramCall) -> bool:
    program = call.program
    stages, outputs = program.stages, call.outputs
    if not stages or any(s.steps for s in stages) or any(math.prod(v.shape) != 1 for v in outputs):
        return False
    if not {b.role for b in program.buffers} <= {"input", "output", "workspace"}:
        return False
    points = sum(math.prod(s.extents.values()) for s in stages)
    return points <= _MOST_POINTS and match(program) is None


def _fits(line: Sequence[ProgramCall], call: ProgramCall) -> bool:
    """Whether a GPU can bind what all of them read, and what they make for others at most."""
    given = {v.name for c in (*line, call) for v in c.inputs}
    made = {v.name for c in (*line, call) for v in c.outputs}
    return len(given - made) + len(made - given) + 1 < MAX_BUFFERS
