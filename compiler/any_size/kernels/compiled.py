"""Kernels that take their sizes as parameters.

A kernel is compiled at a few sizes at which all of its loops run; what differs then are constants
alone, and each becomes a parameter with a formula. A tile of a product leaves a remainder that is
code of its own, so there is one variant for each remainder.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from nnjit_studio.compiler.any_size.fit import Numbers
from nnjit_studio.compiler.any_size.kernels.attention import OpenAttention, open_attention
from nnjit_studio.compiler.any_size.kernels.functions import parts, with_parameters
from nnjit_studio.compiler.any_size.kernels.remainders import remainders, unblocked
from nnjit_studio.compiler.any_size.kernels.samples import (
    SMALLEST,
    TURN,
    Sample,
    blocks_far_off,
    draws,
    holds,
    is_padded,
    leaves_remainders,
    leaves_tiles,
    leaves_vectors,
    told_dims,
)
from nnjit_studio.compiler.any_size.kernels.scalars import (
    DIVISORS,
    Sizes,
    atoms_of,
    bases_of,
    scalar_of,
    vector_of,
)
from nnjit_studio.compiler.any_size.kernels.several import Differs, at, several
from nnjit_studio.compiler.any_size.kernels.small_maps import (
    open_extents,
    tile_of,
    tile_selectors,
    tiled,
)
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.loops import Scheduled
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import encoded, loops_of, lowered
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.convolution import Conv2d
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.schedule.default import BLOCK
from nnjit_studio.compiler.templates import match
from nnjit_studio.model.open_plan import OpenKernel, Scalar, Variant
from nnjit_studio.model.size import Dim, Size, as_function, size
from nnjit_studio.records import TIERS, Kernel
from nnjit_studio.records.candidate import Candidate

_SAMPLES = 6
"""Formulas are fitted to so many samples,"""
_HELD_OUT = 3
"""and have to be right at so many more, which leave other remainders."""
_TRIES = 24
_DRAWS, _STAGES = 6000, 6
_MULTIPLES = 65
_WIDE = 8
"""Tiles of so many rows want sizes twice as far apart: few leave a wanted remainder."""
At = Callable[[Mapping[str, int]], Program]
"""The program of a kernel at sizes of the dimensions."""
_Wanted = Sequence[tuple[Size, int, int]]  # sizes, what they are divided by, the remainders


def remembering(at: At) -> At:
    """The same program for the same sizes, so that all that is known of it stays known."""
    made = cache(lambda *sizes: at(dict(sizes)))
    return lambda sizes: made(*sizes.items())


@dataclass(frozen=True)
class Compiled:
    """A kernel for any size, and the code of its variants."""

    kernel: OpenKernel
    code: tuple[Kernel, ...]
    workspace: Size = field(default_factory=lambda: size(0))
    """Bytes of the scores of an attention that is one kernel."""


def any_size_kernel(
    name: str,
    at: At,
    extents: Sequence[Size],
    dims: Sequence[Dim],
    shapes: Sequence[Size] = (),
    tuned: Candidate | None = None,
) -> Compiled:
    """Compile a kernel of which only numbers change with sizes.

    Parameters
    ----------
    extents
        Of the program's loops, where they are not numbers.
    shapes
        Those of its tensors: a map may be larger than what windows see of it.
    tuned
        The tile of a product or convolution that won at one size, in place of the first guess.

    Raises
    ------
    ModelError
        When its code changes with sizes in other ways.
    """
    maker = _Maker(
        name, remembering(at), tuple(dict.fromkeys(extents)), tuple(dims), tuple(shapes), tuned
    )
    selectors = maker.selectors()
    made: list[Variant | None] = []
    code: list[Kernel] = []
    left = None if maker.settings else remainders(selectors)
    for rests in itertools.product(*(range(by) for _, by in selectors)):
        if left is not None and rests not in left:
            made.append(None)
            continue
        if maker.settings:
            small = tuple(s for s, fits in zip(maker.settings, rests, strict=True) if not fits)
            variant, kernels = maker.variant([], small)
        else:
            wanted = [(s, by, rest) for (s, by), rest in zip(selectors, rests, strict=True)]
            variant, kernels = maker.variant(wanted)
        made.append(variant)
        code += kernels
    # A remainder that no size leaves is never chosen: any variant stands in its place.
    some = next(variant for variant in made if variant)
    variants = [variant or some for variant in made]
    workspace = maker.attention.workspace if maker.attention else size(0)
    return Compiled(OpenKernel(tuple(selectors), tuple(variants)), tuple(code), workspace)


@dataclass
class _Maker:
    name: str
    at: At
    extents: tuple[Size, ...]
    dims: tuple[Dim, ...]
    shapes: tuple[Size, ...] = ()
    tuned: Candidate | None = None
    """The tile of a product or convolution, once it is known to be one."""
    settings: tuple[str, ...] = ()
    """Those of a convolution's tile that the selectors choose."""
    map: dict[str, int] | None = None
    """The open extents that a convolution's tile is guessed for; None where there is no tile."""
    cuts: tuple[int, ...] = ()
    """Columns and rows of that tile; of a product's, and parts of its reduction, the open ones."""
    attention: OpenAttention | None = None

    def selectors(self) -> list[tuple[Size, int]]:
        """The sizes whose remainders are code, and what they are divided by."""
        drawn = list(itertools.islice(self._drawn([]), _SAMPLES))
        if not self.extents:
            return []
        sizes = (*map(size, self.dims), *self.extents)
        numbers = Numbers({vector_of(e, drawn): e for e in sizes})
        maps = [c for c in (tiled(self.at(sizes)) for sizes in drawn) if c]
        if len(maps) == len(drawn):
            self.map = open_extents(maps)
            tile = tile_of(maps[0], self.map, (), self.tuned)
            self.cuts = (tile.x0, tile.y0)
            chosen = tile_selectors(self.name, maps, tile, numbers)
            self.settings = tuple(chosen)
            return list(chosen.values())
        tuned, self.tuned = self.tuned, None
        self.attention = open_attention(self.name, list(map(self.at, drawn)), numbers)
        if self.attention is not None:
            self.cuts = self.attention.cuts
            self.settings = tuple(self.attention.selectors)
            return list(self.attention.selectors.values())
        found = [match(self.at(sizes)) for sizes in drawn]
        subjects = [f.subject for f in found if f]
        inner = [s.contraction if isinstance(s, Quantised) else s for s in subjects]
        products = [s for s in inner if isinstance(s, Contraction)]
        if len(products) < len(drawn):
            return []
        first = found[0]
        guess = first.template.wasm.guess(subjects[0]) if first and first.template.wasm else None
        if guess is None:
            return []
        if tuned is not None:
            guess = self.tuned = unblocked(tuned, products)
        by = {"m": guess.y0, "n": guess.x0, "k": math.lcm(guess.r0, LANES)}
        cut: dict[Size, int] = {}
        for axis, divisor in by.items():
            vector = tuple(getattr(product, axis) for product in products)
            if len(set(vector)) > 1 and divisor > 1:
                formula = numbers.formula(vector)
                if formula is None:
                    raise refused(f"the {axis} of {self.name} has no formula")
                cut[formula] = math.lcm(cut.get(formula, 1), divisor)
                self.cuts += (divisor,)
        return list(cut.items())

    def variant(self, wanted: _Wanted, small: tuple[str, ...] = ()) -> tuple[Variant, list[Kernel]]:
        samples, held_out = self._samples(wanted, small)
        while True:
            fitted = (samples[0], *self._fitted(samples, wanted))
            wrong = next((s for s in held_out if not holds(s, *fitted)), None)
            if wrong is None:
                return self._encoded(*fitted)
            if len(held_out) == 1:
                sizes = ", ".join(f"{name} {n}" for name, n in wrong.sizes.items())
                raise refused(f"a formula of {self.name} is wrong at {sizes}")
            # Several formulas explain the samples, and it was not the first.
            held_out.remove(wrong)
            samples.append(wrong)

    def _fitted(
        self, samples: Sequence[Sample], wanted: _Wanted
    ) -> tuple[list[int | None], tuple[Scalar, ...], Size]:
        """The parameter that each constant becomes, if any; the parameters; the extent."""
        drawn = [s.sizes for s in samples]
        own = (*self.extents, *self.shapes)
        whole = (*told_dims(self.at, self.dims, own, drawn), *self.extents)
        rows = list(zip(*(s.constants for s in samples), strict=True))
        bases = bases_of(rows, atoms := self._atoms(drawn, wanted, whole))
        *_, extent = rows
        scalars: dict[Scalar, int] = {}
        places: list[int | None] = []
        for row in rows[:-1]:
            scalar = scalar_of(self.name, row, atoms, bases, whole)
            places.append(scalars.setdefault(scalar, len(scalars)) if scalar else None)
        found = scalar_of(self.name, extent, atoms, bases, whole)
        if found is None and int(extent[0][1]) == 1 and self.extents:
            # No draw may have two blocks of elements, and a larger size all the same.
            counts = [("i32", n) for n in blocks_far_off(self.at, drawn)]
            elements = scalar_of(self.name, counts, atoms, bases, whole) if counts else None
            if elements:
                return places, tuple(scalars), (elements.size + (BLOCK - 1)) // BLOCK
        return places, tuple(scalars), found.size if found else size(int(extent[0][1]))

    def _encoded(
        self,
        sample: Sample,
        places: Sequence[int | None],
        scalars: tuple[Scalar, ...],
        extent: Size,
    ) -> tuple[Variant, list[Kernel]]:
        program = self.at(sample.sizes)
        if self.attention is not None:
            program = self.attention.prepared(program)
        pointers, start, data = len(program.buffers), 0, []
        for tier, function in zip(TIERS, sample.functions, strict=True):
            count = len(parts(function)[1])
            mine = places[start : start + count]
            given = with_parameters(function, pointers, mine, len(scalars))
            data.append(encoded(given, program, tier))
            start += count
        workload = f"{self.name}~{hashlib.sha256(b''.join(data)).hexdigest()[:12]}"
        loops = (sample.panels, max(1, int(sample.constants[-1][1])))
        kernels = [
            Kernel(workload, None, tier, code, hashlib.sha256(code).hexdigest(), *loops)
            for tier, code in zip(TIERS, data, strict=True)
        ]
        return Variant(workload, scalars, extent), kernels

    def _samples(
        self, wanted: _Wanted, small: tuple[str, ...]
    ) -> tuple[list[Sample], list[Sample]]:
        """Samples of one skeleton, at sizes that leave the wanted remainders: to fit, to check."""
        groups: dict[object, list[Sample]] = {}
        drawn = itertools.islice(self._drawn(wanted), _TRIES)
        first = list(itertools.islice(drawn, _SAMPLES + _HELD_OUT if self.extents else 0))
        if len(first) == _SAMPLES + _HELD_OUT:
            with contextlib.suppress(Differs):
                samples = self._together(first, small)
                return samples[:_SAMPLES], samples[_SAMPLES:]
        for sizes in itertools.chain(first, drawn):
            skeleton, sample = self._sample(sizes, small)
            group = groups.setdefault(skeleton, [])
            group.append(sample)
            if len(group) == _SAMPLES + _HELD_OUT or not self.extents:
                return group[:_SAMPLES], group[_SAMPLES:]
        raise refused(f"the code of {self.name} changes with its sizes")

    def _sample(self, sizes: Sizes, small: tuple[str, ...]) -> tuple[object, Sample]:
        return self._read(sizes, *self._scheduled(sizes, small))

    def _scheduled(
        self, sizes: Mapping[str, Any], small: tuple[str, ...]
    ) -> tuple[Program, Sequence[Scheduled]]:
        program = self.at(sizes)
        if self.attention is not None:
            program = self.attention.prepared(program)
            return program, (self.attention.loops(program, small),) * len(TIERS)
        return program, loops_of(program, self._tile(program, small))

    def _read(
        self, sizes: Sizes, program: Program, loops: Sequence[Scheduled]
    ) -> tuple[object, Sample]:
        functions = lowered(program, loops, self._keeps_loops)
        read = [parts(function) for function in functions]
        constants = [c for _, found in read for c in found]
        constants.append(("i32", loops[0].parallel_extent))
        skeleton = (tuple(rest for rest, _ in read), loops[0].panels)
        return skeleton, Sample(sizes, functions, tuple(constants), loops[0].panels)

    def _together(self, drawn: Sequence[Sizes], small: tuple[str, ...]) -> list[Sample]:
        """Samples of a kernel that is compiled once for all; the last one for itself too.

        Raises
        ------
        Differs
            When they have no one code.
        """
        whole = {d.name: several(sizes[d.name] for sizes in drawn) for d in self.dims}
        skeleton, made = self._read(drawn[0], *self._scheduled(whole, small))
        samples = [
            replace(made, sizes=sizes, constants=tuple((t, at(v, i)) for t, v in made.constants))
            for i, sizes in enumerate(drawn)
        ]
        alone, last = self._sample(drawn[-1], small)
        if alone != skeleton or last.constants != samples[-1].constants:
            raise Differs
        return samples

    def _tile(self, program: Program, small: tuple[str, ...]) -> Candidate | None:
        found = match(program) if self.map is not None else None
        if self.map is None or not found or not isinstance(found.subject, Conv2d):
            return self.tuned
        return tile_of(found.subject, self.map, small, self.tuned)

    def _drawn(self, wanted: _Wanted) -> Iterator[Sizes]:
        """Sizes that leave the wanted remainders, and others by :data:`TURN` as varied as may
        be: what is fitted to too few holds for them alone."""
        seen: set[tuple[int, ...]] = set()
        known: set[tuple[int, int]] = set()
        turned, wide = self._turned, 1 + max((by for _, by, _ in wanted), default=0) // _WIDE
        own = [not any(is_padded(e, other) for other in turned) for e in turned]
        drawn = draws(tuple((d, self._first(d)) for d in self.dims), wide)
        fixed = any(by % TURN == 0 for _, by, _ in wanted)
        loops_at, cut_at = as_function(turned), as_function(s for s, _, _ in wanted)
        for turn in itertools.count():
            for attempt, sizes in zip(range(_DRAWS), drawn, strict=False):
                cut = zip(cut_at(sizes), wanted, strict=True)
                if any(n % by != rest for n, (_, by, rest) in cut):
                    continue
                key, stage = loops_at(sizes), _STAGES * attempt // _DRAWS
                if self.map is not None:  # its loops end alike at all sizes
                    fits = leaves_tiles(itertools.compress(key, own), turn, stage // 2, self.cuts)
                elif wanted:
                    fits = fixed or stage > 1 or leaves_vectors(key)
                else:
                    fits = leaves_remainders(key, turn, stage // 2, self._keeps_loops)
                    fits = fits and (self.attention is None or self.attention.takes(sizes))
                fits = fits and (stage > _STAGES // 2 or min(key) >= SMALLEST)
                if not fits or key in seen or len(set(sizes.values())) < len(sizes):
                    continue
                rests = {(i, n % TURN) for i, n in enumerate(key)}
                if stage % 2 or known.isdisjoint(rests):
                    seen.add(key)
                    known |= rests
                    yield sizes
                    break
            else:
                return

    @cached_property
    def _keeps_loops(self) -> bool:
        """Where a loop runs over a map and one over its strided map: at odd sizes alone a column of
        padding is left, in a loop of one turn or none."""
        return len(self._turned) > 1 and any(e not in map(size, e.dims) for e in self._turned)

    @cached_property
    def _turned(self) -> list[Size]:
        """What loops run over, without multiples of one another."""
        whole = [e for e in self.extents if e in map(size, e.dims)]
        several = [o * k for o in self.extents for k in range(2, _MULTIPLES)]
        known = {d for e in whole for d in e.dims}
        others = [e for e in self.extents if e not in several and not known.issuperset(e.dims)]
        return whole + others or [*map(size, self.dims)]

    def _first(self, dim: Dim) -> int:
        """Steps of a dimension from which on all loops that follow it alone have turns enough."""
        follow = [e for e in self.extents if {d.name for d in e.dims} == {dim.name}]
        low = -(-max(dim.low, SMALLEST) // dim.step)
        while any(e.at({dim.name: dim.step * low}) < SMALLEST for e in follow):
            low += 1
        return low

    def _atoms(self, samples: Sequence[Sizes], wanted: _Wanted, whole: Sequence[Size]) -> Numbers:
        tiled = [cut for cut, _, _ in wanted]
        first = self.attention.units if self.attention else ()
        bases = tuple(dict.fromkeys((*first, *whole, *tiled)))
        divisors = {*DIVISORS, *self.cuts, *(by for _, by, _ in wanted)}
        return atoms_of(samples, bases, self.shapes, divisors)
