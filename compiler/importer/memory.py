"""Static memory plan: an offset in the arena for each intermediate tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.model import ALIGNMENT_BYTES


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
