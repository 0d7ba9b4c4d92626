"""Calls over rubbish of two kinds: what a call leaves unwritten is found for sure.

Places in the arena are used again, so an unwritten row holds one of an earlier tensor, which may
look right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.fused import held
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.model import Plan, PlanStep
from nnjit_studio.model.plan import Loop

_KINDS = (0xFF, 0x7F)
"""Of each byte. As floats no number, and a very large one: a maximum hides neither."""
_TOLD = 0.001
"""Smaller shares of a result would read as none of it."""


@dataclass(frozen=True)
class Fresh:
    """The buffers that a call is the first to touch."""

    results: tuple[int, ...]
    """What others read."""
    spare: tuple[int, ...]
    """What no other reads: workspaces."""


def fresh(plan: Plan) -> dict[PlanStep, Fresh]:
    """Of each call of a plan in which every tensor has a buffer of its own."""
    calls = [step for step in plan.steps if step.op == "call"]
    touched = Counter(place for step in calls for place in set(step.args))
    read = {place for step in plan.steps if step.op != "call" for place in held(step)}
    read.update(buffer for port in plan.outputs for buffer in port.buffers)
    known = {i for i, buffer in enumerate(plan.buffers) if buffer.region == "weight"}
    known.update(port.buffer for port in plan.inputs)
    made = {}
    for step in plan.steps:
        if step.loop:
            known |= _given(step.loop, known)
        if step.op == "end":  # what a loop carried and stacked is there behind it
            known.update(step.args)
        if step.op == "call":
            first = [place for place in dict.fromkeys(step.args) if place not in known]
            known.update(first)
            results = tuple(place for place in first if touched[place] > 1 or place in read)
            made[step] = Fresh(results, tuple(place for place in first if place not in results))
    return made


def _given(loop: Loop, known: set[int]) -> set[int]:
    """What holds something when a run of a loop's body begins."""
    rows = {row.row for row in loop.rows if row.whole in known}
    return {loop.number, *(carried.read for carried in loop.carried), *rows}


def run_twice(
    run: Callable[[], None], mine: Fresh, memory: Callable[[int], NDArray[np.uint8]]
) -> None:
    """Run a call over memory of either kind.

    Parameters
    ----------
    memory
        That of a buffer.

    Raises
    ------
    ModelError
        When its results are not the same: it leaves a part of them unwritten, or they hang on
        what was in its workspaces.
    """
    found = []
    for kind in _KINDS:
        for place in (*mine.results, *mine.spare):
            memory(place)[:] = kind
        run()
        found.append([memory(place).copy() for place in mine.results])
    for one, other in zip(*found, strict=True):
        if not np.array_equal(one, other):
            share = np.count_nonzero(one != other) / one.size
            told = f"{share:.1%}" if share >= _TOLD else f"less than {_TOLD:.1%}"
            raise refused(f"a kernel leaves {told} of a result to what was in memory before")
