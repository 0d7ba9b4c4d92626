"""Places in the arena: tensors that are alive at the same step never overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnjit_studio.model.memory import lifetimes
from nnjit_studio.model.plan import ALIGNMENT_BYTES, Plan, PlanBuffer


@dataclass(frozen=True)
class Lifetime:
    """A tensor of ``nbytes`` that is needed from step ``first`` to step ``last``, inclusive."""

    nbytes: int
    first: int
    last: int


def aligned(nbytes: int) -> int:
    """Rounded up to the plan's alignment."""
    return -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def plan_offsets(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offsets such that tensors alive at the same step never overlap.

    Greedy by size, largest first, each into the lowest gap that fits: the
    heuristic of Pisarchyk and Lee, "Efficient Memory Management for Deep
    Neural Net Inference" (2020), section 5.

    Returns
    -------
    tuple[list[int], int]
        The offset of each tensor and the size of the arena, in bytes.
    """
    order = sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].nbytes, i))
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    total = 0
    for i in order:
        item = lifetimes[i]
        rivals = sorted(
            (offsets[j], offsets[j] + aligned(lifetimes[j].nbytes))
            for j in placed
            if lifetimes[j].first <= item.last and item.first <= lifetimes[j].last
        )
        at = 0
        for begin, end in rivals:
            if begin - at >= aligned(item.nbytes):
                break
            at = max(at, end)
        offsets[i] = at
        placed.append(i)
        total = max(total, at + aligned(item.nbytes))
    return offsets, total


def placed(plan: Plan) -> Plan:
    """The plan with offsets for its arena, which follow from sizes and from who uses what when."""
    spans, whole = lifetimes(plan), (0, len(plan.steps))
    arena = [i for i, b in enumerate(plan.buffers) if b.region == "arena"]
    lives = [Lifetime(plan.buffers[i].nbytes, *spans.get(i, whole)) for i in arena]
    offsets, total = plan_offsets(lives)
    at = dict(zip(arena, offsets, strict=True))
    buffers: tuple[PlanBuffer, ...] = tuple(
        replace(b, offset=at[i]) if i in at else b for i, b in enumerate(plan.buffers)
    )
    return replace(plan, buffers=buffers, arena_bytes=total)
