"""The sizes that a kernel is compiled at, one after the other."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from nnjit_studio.compiler.any_size.kernels.samples import (
    SMALLEST,
    TURN,
    draws,
    is_padded,
    leaves_remainders,
    leaves_tiles,
    leaves_vectors,
)
from nnjit_studio.compiler.any_size.kernels.scalars import Sizes
from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.model.size import Dim, Size, as_function, as_test, size

Wanted = Sequence[tuple[Size, int, int]]
"""Sizes, what they are divided by, the remainders."""
_DRAWS, _STAGES = 6000, 6
_MULTIPLES = 65
_WIDE = 8
"""Tiles of so many rows want sizes twice as far apart: few leave a wanted remainder."""
_FURTHER = 12
"""Sizes at most at which formulas are looked at beyond those that made them."""
_TELLING = 4
_COARSE = 8
"""Steps of a dimension from which on an extent that follows it wants sizes further apart."""


@dataclass(frozen=True)
class Drawing:
    """What decides which sizes tell enough of a kernel.

    ``tile`` are columns and rows of a convolution's, whose loops end alike at all sizes; ``takes``
    is what else it asks of sizes; ``holds`` whether 32 bits hold its numbers there; ``small`` where
    none are large.
    """

    dims: tuple[Dim, ...]
    extents: tuple[Size, ...]
    shapes: tuple[Size, ...] = ()
    tile: tuple[int, ...] | None = None
    takes: Callable[[Sizes], bool] = lambda sizes: True
    holds: Callable[[Sizes], bool] = lambda sizes: True
    small: bool = False

    def sizes(self, wanted: Wanted) -> Iterator[Sizes]:
        """Sizes that leave the wanted remainders, and others by :data:`TURN` as varied as may
        be: what is fitted to too few holds for them alone."""
        seen: set[tuple[int, ...]] = set()
        known: set[tuple[int, int]] = set()
        held: set[tuple[int, int]] = set()
        wide = 1 + max((by for _, by, _ in wanted), default=0) // _WIDE
        cut = any(e not in map(size, e.dims) for e in itertools.compress(self.turned, self._grows))
        near = self._small_draws() if self.small else self._draws(wide, False)
        is_wide = not self.small and max(map(self._grain, self.dims), default=1) > 1
        far = self._draws(wide, True) if is_wide else near
        loops_at, is_wanted = as_function(self.turned), as_test(wanted)
        for turn in itertools.count():
            for attempt in range(_DRAWS):
                stage = _STAGES * attempt // _DRAWS
                sizes = next(far if stage in (2, 3) else near)
                if not is_wanted(sizes):
                    continue
                key = loops_at(sizes)
                if key in seen or not self._fits(sizes, key, wanted, turn, stage):
                    continue
                if not self._runs(sizes):
                    continue
                rests = {(i, n % TURN) for i, n in enumerate(key)}
                own = set(itertools.compress(enumerate(key), self._grows))
                if cut and stage < _STAGES - 2 and not held.isdisjoint(own):
                    continue
                if (stage % 2 or known.isdisjoint(rests)) and self.holds(sizes):
                    seen.add(key)
                    known |= rests
                    held |= own
                    yield sizes
                    break
            else:
                return

    def _fits(
        self, sizes: Sizes, key: Sequence[int], wanted: Wanted, turn: int, stage: int
    ) -> bool:
        stage = min(stage, _STAGES // 2) if self.small else stage
        if self.tile is not None:
            own = itertools.compress(key, self._own)
            fits = leaves_tiles(own, turn, stage // 2, self.tile)
        elif wanted:
            fixed = any(by % TURN == 0 for _, by, _ in wanted)
            fits = fixed or stage > 1 or leaves_vectors(key)
        else:
            fits = leaves_remainders(key, turn, stage // 2, self.keeps_loops)
        large = stage > _STAGES // 2 or min(key) >= SMALLEST
        return fits and large and len(set(sizes.values())) == len(sizes)

    def further(self, wanted: Wanted) -> list[Sizes]:
        """Sizes whose loops and tensors leave remainders that none of those before them left, or
        whose loops all have extents that they have at none of those."""
        told = [*self.turned, *(s for s in self.shapes if len(s.dims) == 1)]
        told_at, factors_at = as_function(told), as_function(self.shapes)
        loops_at, is_wanted = as_function(self.turned), as_test(wanted)
        known: set[tuple[int, int]] = set()
        lanes: set[tuple[int, int]] = set()
        held: set[tuple[int, int]] = set()
        fixed = [any(each == e for each, _, _ in wanted) for e in self.turned]
        found: list[Sizes] = []
        drawn = self._small_draws() if self.small else self._draws(1, True)
        for attempt, sizes in zip(range(_DRAWS), drawn, strict=False):
            key = loops_at(sizes)
            if min(key) < SMALLEST or not is_wanted(sizes):
                continue
            # Products by powers of two are shifts, which is other code.
            shifts = any(n & (n - 1) == 0 for n in (*key, *factors_at(sizes)))
            if shifts or not self._runs(sizes) or len(set(sizes.values())) < len(sizes):
                continue
            rests = {(i, n % TURN) for i, n in enumerate(told_at(sizes))}
            mine = {(i, n % LANES) for i, n in enumerate(key) if not fixed[i]}
            own = set(itertools.compress(enumerate(key), self._grows))
            if len(found) < LANES and 2 * attempt < _DRAWS:  # first what vectors leave of loops
                fits = lanes.isdisjoint(mine) and held.isdisjoint(own)
            else:
                fits = 2 * len(rests - known) > len(rests) or held.isdisjoint(own)
            if fits and self.holds(sizes):
                known |= rests
                lanes |= mine
                held |= own
                found.append(sizes)
                if len(found) == _FURTHER:
                    break
        return found

    def tells(self, samples: Sequence[Sizes]) -> bool:
        """Whether each loop has extents enough there, where it has so many at all: three decide a
        formula, the fourth may refuse it."""
        rows = zip(*map(as_function(self.turned), samples), strict=True)
        return all(
            len(set(row)) >= min(_TELLING, _count(e))
            for e, row in zip(self.turned, rows, strict=True)
        )

    def _runs(self, sizes: Sizes) -> bool:
        """Whether no loop has less than one turn, and what else is asked."""
        return min(self._left(sizes), default=1) > 0 and self.takes(sizes)

    @cached_property
    def _left(self) -> Callable[[Sizes], tuple[int, ...]]:
        """The turns of loops that have fewer the larger a size is, until there are none."""
        far = {d.name: d.step * _DRAWS for d in self.dims}
        return as_function(e for e in self.extents if e.at(far) < 1)

    def _draws(self, wide: int, far: bool) -> Iterator[Sizes]:
        """``far`` apart where few places of a map follow from many sizes."""
        firsts = tuple((d, self.first(d), self._grain(d) if far else 1) for d in self.dims)
        return draws(firsts, wide)

    def _small_draws(self) -> Iterator[Sizes]:
        """Smaller ones, at which loops have no more turns than a number."""
        firsts = ((d, max(-(-d.low // d.step), self.first(d) // 2), 0) for d in self.dims)
        return draws(tuple(firsts), 1)

    @cached_property
    def _own(self) -> list[bool]:
        """Of each loop, whether it runs over no map that is another one and its padding."""
        return [not any(is_padded(e, other) for other in self.turned) for e in self.turned]

    @cached_property
    def _grows(self) -> list[bool]:
        """Of each loop, whether it has more turns at far sizes: not where these are no more than a
        number."""
        at = as_function(self.turned)
        far, farther = ({d.name: d.step * _DRAWS * n for d in self.dims} for n in (1, 2))
        return [n != more for n, more in zip(at(far), at(farther), strict=True)]

    @cached_property
    def keeps_loops(self) -> bool:
        """Where a loop runs over a map and one over its strided map: at odd sizes alone a column of
        padding is left, in a loop of one turn or none."""
        return len(self.turned) > 1 and any(e not in map(size, e.dims) for e in self.turned)

    @cached_property
    def turned(self) -> list[Size]:
        """What loops run over, without multiples of one another."""
        whole = [e for e in self.extents if e in map(size, e.dims)]
        several = [o * k for o in self.extents for k in range(2, _MULTIPLES)]
        known = {d for e in whole for d in e.dims}
        others = [e for e in self.extents if e not in several and not known.issuperset(e.dims)]
        return whole + others or [*map(size, self.dims)]

    def first(self, dim: Dim) -> int:
        """Steps of a dimension from which on all loops that follow it alone have turns enough."""
        own = [e for e in self.extents if {d.name for d in e.dims} == {dim.name}]
        follow = [e for e in own if e.at({dim.name: dim.step * _DRAWS}) >= SMALLEST]
        low = -(-max(dim.low, SMALLEST) // dim.step)
        while any(e.at({dim.name: dim.step * low}) < SMALLEST for e in follow):
            low += 1
        return low

    def _grain(self, dim: Dim) -> int:
        """How many times as far apart sizes of a dimension are to be, so that the loops over it,
        which windows make shorter, have as many extents as those over a dimension."""
        growing = itertools.compress(self.turned, self._grows)
        at = as_function(e for e in growing if dim.name in {d.name for d in e.dims})
        base = {d.name: d.step * _DRAWS for d in self.dims}

        def after(steps: int) -> tuple[int, ...]:
            return at({**base, dim.name: base[dim.name] + steps * dim.step})

        steps = 1
        while steps < _DRAWS and any(
            any(map(operator.eq, after(n), after(n + steps))) for n in range(2 * steps)
        ):
            steps *= 2
        return max(1, steps // _COARSE)


def _count(extent: Size) -> int:
    """How many values it may have, at most."""
    low, high = extent.bounds()
    return min(high - low, math.prod((d.high - d.low) // d.step for d in extent.dims)) + 1
