"""Loops of a plan as wasmtime runs them for the check of the numbers: registers, swapped places."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.model import Plan
from nnjit_studio.model.plan import NOWHERE, Loop, PlanStep

Call = Callable[[PlanStep], None]


def run_steps(plan: Plan, image: NDArray[np.uint8], at: list[int], call: Call) -> None:
    """All steps up to `return`; ``at`` has the buffers' addresses, and gets those of registers."""
    steps = iter(plan.steps)
    for step in steps:
        if step.op == "call":
            call(step)
        elif step.loop is not None:
            body = list(itertools.takewhile(lambda s: s.op != "end", steps))
            _loop(step.loop, body, plan, image, at, call)


def _loop(
    loop: Loop,
    body: Sequence[PlanStep],
    plan: Plan,
    image: NDArray[np.uint8],
    at: list[int],
    call: Call,
) -> None:
    def move(source: int, target: int, nbytes: int) -> None:
        image[target : target + nbytes] = image[source : source + nbytes]

    size = [b.nbytes for b in plan.buffers]
    trips = loop.trips
    if loop.count != NOWHERE:
        trips = int(image[at[loop.count] : at[loop.count] + 8].view(np.int64)[0])
        trips = min(max(trips, 0), loop.trips)
    places = [[c.last, c.other] for c in loop.carried]
    for c, (last, other) in zip(loop.carried, places, strict=True):
        n = size[last]
        start = image[at[c.start] : at[c.start] + min(size[c.start], n)].copy()
        first = at[other if trips % 2 else last]
        image[first : first + n] = np.resize(start, n)
    done = 0
    while done < trips:
        odd = (trips - done) % 2
        if loop.going and not image[at[places[0][odd]]]:
            break
        image[at[loop.number] : at[loop.number] + 8] = np.array([done]).view(np.uint8)
        for c, place in zip(loop.carried, places, strict=True):
            at[c.read], at[c.written] = at[place[odd]], at[place[1 - odd]]
        for row in loop.rows:
            turn = trips - 1 - done if row.backward else done
            at[row.row] = at[row.whole] + turn * size[row.row]
        for step in body:
            call(step)
        for source, target in loop.copies:
            move(at[source], at[target], size[target])
        done += 1
    if (trips - done) % 2:
        for last, other in places:
            move(at[other], at[last], size[last])
