"""Loops that are cut at a size which is no loop's own, as where a padding begins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.ir.loops import For, Scheduled, Statement, When
from nnjit_studio.compiler.ir.tensor_ir import Const
from nnjit_studio.model.size import Dim, Size


def cuts(
    scheduled: Callable[[Mapping[str, int]], Sequence[Scheduled]],
    told: Sequence[Size],
    drawn: Sequence[Mapping[str, int]],
) -> dict[Size, int]:
    """The sizes at which a loop with a fixed end is cut, each with that end.

    Vectors leave one element in front of a cut at some sizes and none at others, and the code is
    right only for sizes up to the end.

    Parameters
    ----------
    scheduled
        The loops of a program at sizes of the dimensions.
    told
        Sizes that the program tells; others are not looked at.
    drawn
        Two or more sizes of the dimensions at which to look.
    """
    if not told or len(drawn) < 2:
        return {}
    made = [(scheduled(sizes), sizes) for sizes in drawn]
    found = {each: {end_behind(loops, each.at(sizes)) for loops, sizes in made} for each in told}
    return {each: end for each, (end, *others) in found.items() if end is not None and not others}


def bounded(dims: Sequence[Dim], most: Mapping[Size, int]) -> tuple[Dim, ...]:
    """The dimensions up to where sizes are no larger than these numbers.

    Raises
    ------
    ModelError
        When one hangs on several dimensions, or even its smallest is larger.
    """
    high = {d.name: d.high // d.step for d in dims}
    for value, end in most.items():
        if len(value.dims) != 1:
            raise refused(f"its loops end where {value} is {end}")
        (dim,) = value.dims
        steps = range(-(-dim.low // dim.step), min(high[dim.name], end + dim.low) + 1)
        at = bisect_right(steps, end, key=lambda n: value.at({dim.name: n * dim.step}))
        if not at:
            raise refused(f"its loops end where {value} is {end}")
        high[dim.name] = min(high[dim.name], steps[at - 1])
    return tuple(
        replace(d, high=high[d.name] * d.step) if high[d.name] < d.high // d.step else d
        for d in dims
    )


def end_behind(loops: Sequence[Scheduled], cut: int) -> int | None:
    """Where the last part of a loop ends that is cut there; None where none is."""
    ends = [
        part.end.value
        for scheduled in loops
        for block in _blocks(scheduled.body)
        for begins in block
        if isinstance(begins, For) and _is(begins, cut)
        for part in block
        if isinstance(part, For) and part.var == begins.var and isinstance(part.end, Const)
    ]
    return int(max(ends)) if ends else None


def _is(loop: For, begin: int) -> bool:
    return isinstance(loop.begin, Const) and loop.begin.value == begin


def _blocks(block: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    yield block
    for statement in block:
        inner = [statement.body] if isinstance(statement, For) else []
        inner += [statement.then, statement.otherwise] if isinstance(statement, When) else []
        for each in inner:
            yield from _blocks(each)
