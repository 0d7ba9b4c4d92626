"""The sizes that a kernel is compiled at: conditions, so that its formulas hold at all others, and
what it is there."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from nnjit_studio.compiler.any_size.kernels.functions import Constant, bits_of
from nnjit_studio.compiler.any_size.kernels.scalars import Sizes
from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import loops_of
from nnjit_studio.compiler.schedule.default import BLOCK
from nnjit_studio.compiler.wasm.ir import Function
from nnjit_studio.model.open_plan import Scalar
from nnjit_studio.model.size import Dim, Size, as_function, size

TURN = 16
"""Elements of an unrolled turn of a loop of vectors."""
SMALLEST = 34
"""Sizes are drawn from here on: all loops over them run, unrolled ones too."""
_SPREAD = 360
"""How far above the smallest ones sizes are drawn, at least."""
_KINDS = 3
_TILE = 8
"""Most tiles divide maps of multiples of it."""
_FAR = 64
"""Times the sizes of a draw: what has several blocks of elements anywhere has them there."""
_MOST_APART = 1 << 28
"""Elements between the parts of a tensor: a few of these, in bytes, are a number of 32 bits."""
_BLOCK = 1024
"""Draws that are kept together: most of them do not fit, so that a model asks for many."""
_REMAINDERS = (10, 11, 13, 14, 15, 9)
"""Of a turn of an unrolled loop of vectors: single vectors and single elements are left."""


Firsts = tuple[tuple[Dim, int, int], ...]
"""Of each dimension the smallest size, in steps, and how many times the usual range there is, of
which 0 is a short one."""


def draws(firsts: Firsts, wide: int) -> Iterator[Sizes]:
    """Sizes of dimensions, all out of ``wide`` times the range: without end, and the same for all
    kernels."""
    return (sizes for n in itertools.count() for sizes in _block(firsts, wide, n)[0])


@lru_cache(maxsize=64)
def _block(firsts: Firsts, wide: int, number: int) -> tuple[list[Sizes], tuple[Any, ...]]:
    """Some draws that follow those of the block before, and the state that they leave."""
    rng = random.Random(0)
    if number:
        rng.setstate(_block(firsts, wide, number - 1)[1])
    ranges = [
        (d, low, low + (max(_SPREAD // d.step, TURN, 3 * low) * wide * more or 4 * max(TURN, low)))
        for d, low, more in firsts
    ]
    drawn: list[Sizes] = [
        {d.name: d.step * rng.randint(*ends) for d, *ends in ranges} for _ in range(_BLOCK)
    ]
    return drawn, rng.getstate()


def leaves_remainders(extents: Sequence[int], turn: int, stage: int, empty: bool = False) -> bool:
    """Whether loops end with a remainder: another one each turn, then any, then perhaps none.

    Where loops may be ``empty``, every third sample is even: of a map and its strided map one
    leaves none then, and a number that is cut of one is told from one that is cut of the other.
    """
    if empty and turn % 3 == 1:
        return stage > 1 or all(n % 2 == 0 for n in extents)
    if stage == 0:
        count = len(_REMAINDERS)
        return all(n % TURN == _REMAINDERS[(turn + i) % count] for i, n in enumerate(extents))
    return stage > 1 or all(n % TURN > LANES and n % LANES for n in extents)


def remembering(at: Callable[[Sizes], Program]) -> Callable[[Sizes], Program]:
    """The same program for the same sizes, so that all that is known of it stays known."""
    made = cache(lambda *sizes: at(dict(sizes)))
    return lambda sizes: made(*sizes.items())


def told_dims(
    at: Callable[[Sizes], Program], dims: Sequence[Dim], own: Sequence[Size], drawn: Sequence[Sizes]
) -> tuple[Size, ...]:
    """The dimensions that a program of the sizes ``own`` tells, at the sizes that were drawn.

    One of which it takes no more than ``ceil(n / 8)`` is none: at all of these, what is cut of
    that may be what is cut of ``n``.
    """
    sizes_at = as_function(own)
    known = {dim.name for each in own for dim in each.dims}

    def has_twin(dim: Dim, sizes: Sizes) -> bool:
        moved = ({**sizes, dim.name: sizes[dim.name] + by} for by in (-dim.step, dim.step))
        return any(sizes_at(m) == sizes_at(sizes) and at(m) == at(sizes) for m in moved)

    rounded = {d for d in dims if d.name in known and all(has_twin(d, sizes) for sizes in drawn)}
    return tuple(size(d) for d in dims if d not in rounded)


def leaves_vectors(extents: Sequence[int]) -> bool:
    """Whether unrolled loops of vectors leave several: a loop over one is none, other code."""
    return all(n % TURN >= 2 * LANES for n in extents)


def is_padded(extent: Size, other: Size) -> bool:
    """Whether one is the other with something added, such as a padded width."""
    more = (extent - other).constant
    return more is not None and more > 0


def leaves_tiles(map_: Iterable[int], turn: int, stage: int, cuts: Sequence[int]) -> bool:
    """Whether the map is a whole number of tiles, which every third sample has to be, or one of its
    extents in turn is one more than tiles that are ``cuts`` wide: others may not tell
    ``ceil(n / tile)`` from ``n // tile + 1``, or from ``ceil((n - 1) / tile)``. No extent is a
    power of two either, because products by these are shifts, which is other code. Late stages
    take anything."""
    extents, tile = list(map_), math.lcm(*cuts)
    round_, kind = divmod(turn, _KINDS)
    if kind:
        whole = extents[(2 * round_ + kind - 1) % len(extents)] % tile == 1 % tile
    else:
        whole = all(n % (tile if round_ % 2 else _TILE) == 0 for n in extents)
    return stage > 1 or (whole and all(n & (n - 1) for n in extents))


def fits_32_bits(program: Program) -> bool:
    """Whether 32 bits hold the steps between the parts of its tensors, in bytes."""
    return all(math.prod(buffer.shape[1:]) < _MOST_APART for buffer in program.buffers)


def blocks_far_off(at: Callable[[Sizes], Program], drawn: Sequence[Sizes]) -> list[int]:
    """Elements of a kernel of one parallel step at each of the sizes, of which it has several steps
    at larger ones: one for each block. None of a kernel that has one everywhere."""
    program = at({name: _FAR * n for name, n in drawn[0].items()})
    if len(program.stages) > 1:
        return []  # which no schedule cuts so
    counts = [_elements(at(sizes)) for sizes in drawn]
    steps = loops_of(program, None)[0].parallel_extent
    return counts if 1 < steps == -(-_elements(program) // BLOCK) else []


def _elements(program: Program) -> int:
    return math.prod([b for b in program.buffers if b.role == "output"][-1].shape)


@dataclass(frozen=True)
class Sample:
    """A kernel at one of the sizes."""

    sizes: Sizes
    functions: tuple[Function, ...]
    """One for each tier."""
    constants: tuple[Constant, ...]
    """Of all tiers, one after the other, then the extent of the parallel loop."""
    panels: tuple[tuple[int, int], ...]
    own_floats: bool = True
    """Whether its floats are those of these sizes."""


def holds(
    sample: Sample,
    fitted: Sample,
    places: Sequence[int | None],
    scalars: Sequence[Scalar],
    extent: Size,
) -> bool:
    """Whether the numbers of a sample are what the formulas say."""
    *numbers, (_, loop) = sample.constants
    for number, constant, place in zip(numbers, fitted.constants, places, strict=False):
        scalar = scalars[place] if place is not None else None
        said = scalar.at(sample.sizes) if scalar else bits_of(constant)
        told = sample.own_floats or not scalar or scalar.kind == "int"
        if told and bits_of(number) != said:
            return False
    return len(numbers) == len(places) and extent.at(sample.sizes) == loop
