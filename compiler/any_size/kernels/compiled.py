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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nnjit_studio.compiler.any_size.formulas.fit import Numbers, Vector
from nnjit_studio.compiler.any_size.kernels.attention import OpenAttention, open_attention
from nnjit_studio.compiler.any_size.kernels.cuts import cuts
from nnjit_studio.compiler.any_size.kernels.drawn import Drawing, Wanted
from nnjit_studio.compiler.any_size.kernels.functions import Constant, parts, with_parameters
from nnjit_studio.compiler.any_size.kernels.remainders import remainders, unblocked
from nnjit_studio.compiler.any_size.kernels.samples import (
    Sample,
    blocks_far_off,
    fits_32_bits,
    holds,
    remembering,
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
from nnjit_studio.model.size import Dim, Size, size
from nnjit_studio.records import TIERS, Kernel
from nnjit_studio.records.candidate import Candidate

_SAMPLES = 6
"""Formulas are fitted to so many samples,"""
_HELD_OUT = 3
"""and have to be right at so many more, which leave other remainders."""
_ALONE = 8
"""Of further sizes, so many are compiled for themselves where no code is made for all at once."""
_TRIES = 24
Within = tuple[Size, int, bool] | None
At = Callable[[Mapping[str, int]], Program]
"""The program of a kernel at sizes of the dimensions."""


@dataclass(frozen=True)
class Compiled:
    """A kernel for any size, and the code of its variants."""

    kernel: OpenKernel
    code: tuple[Kernel, ...]
    workspace: Size = field(default_factory=lambda: size(0))
    """Bytes of the scores of an attention that is one kernel."""
    most: Mapping[Size, int] = field(default_factory=dict)  # what sizes are no larger than


def any_size_kernel(
    name: str,
    at: At,
    extents: Sequence[Size],
    dims: Sequence[Dim],
    shapes: Sequence[Size] = (),
    tuned: Candidate | None = None,
    told: Sequence[Size] = (),
    within: Within = None,
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
    told
        What else its program says, such as the last place of an axis.
    within
        A size and a number: the kernel is for sizes at which that is less, or with True no less.

    Raises
    ------
    ModelError
        When its code changes with sizes in other ways.
    """
    maker = _Maker(
        name, remembering(at), tuple(dict.fromkeys(extents)), tuple(dims), tuple(shapes), tuned
    )
    maker.told, maker.within = tuple(told), within
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
    kernel = OpenKernel(tuple(selectors), tuple(variants))
    return Compiled(kernel, tuple(code), workspace, maker.ends)


@dataclass
class _Maker:
    name: str
    at: At
    extents: tuple[Size, ...]
    dims: tuple[Dim, ...]
    shapes: tuple[Size, ...] = ()
    tuned: Candidate | None = None
    """The tile of a product or convolution, once it is known to be one."""
    told: tuple[Size, ...] = ()
    within: Within = None
    settings: tuple[str, ...] = ()
    """Those of a convolution's tile that the selectors choose."""
    map: dict[str, int] | None = None
    """The open extents that a convolution's tile is guessed for; None where there is no tile."""
    cuts: tuple[int, ...] = ()
    """Columns and rows of that tile; of a product's, and parts of its reduction, the open ones."""
    attention: OpenAttention | None = None
    ends: dict[Size, int] = field(default_factory=dict)  # of loops that are cut at a size

    @cached_property
    def _drawing(self) -> Drawing:
        """Known once the selectors are."""
        takes = self.attention.takes if self.attention else self._takes
        tile = None if self.map is None else self.cuts
        shapes = (*self.shapes, *self.told)
        small = self.within is not None and not self.within[2]
        given = (takes, lambda sizes: fits_32_bits(self.at(sizes)), small)
        return Drawing(self.dims, self.extents, shapes, tile, *given)

    def _takes(self, sizes: Sizes) -> bool:
        return self.within is None or (
            (self.within[0].at(sizes) >= self.within[1]) == self.within[2]
        )

    def selectors(self) -> list[tuple[Size, int]]:
        """The sizes whose remainders are code, and what they are divided by."""
        drawing = Drawing(self.dims, self.extents, takes=self._takes)
        drawn = list(itertools.islice(drawing.sizes([]), _SAMPLES))
        if not self.extents or not drawn:
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

    def variant(self, wanted: Wanted, small: tuple[str, ...] = ()) -> tuple[Variant, list[Kernel]]:
        samples, held_out = self._samples(wanted, small)
        told = [sample.sizes for sample in (*samples, *held_out)]
        if self.extents and not self._drawing.tells(told):
            raise refused(f"too few sizes were found that tell the formulas of {self.name}")
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
        self, samples: Sequence[Sample], wanted: Wanted
    ) -> tuple[list[int | None], tuple[Scalar, ...], Size]:
        """The parameter that each constant becomes, if any; the parameters; the extent."""
        drawn = [s.sizes for s in samples]
        own = (*self.extents, *self.shapes)
        parts_of_loops = (part for cut, end in self.ends.items() for part in (cut, size(end) - cut))
        whole = (*told_dims(self.at, self.dims, own, drawn), *self.extents, *parts_of_loops)
        rows, atoms, bases = told = self._told(samples, wanted, whole)
        exact = [s for s in samples if s.own_floats]
        floats = told if len(exact) == len(samples) else self._told(exact, wanted, whole)
        *_, extent = rows
        scalars: dict[Scalar, int] = {}
        places: list[int | None] = []
        for row, own_row in zip(rows[:-1], floats[0], strict=False):
            given = (row, atoms, bases) if row[0][0] == "i32" else (own_row, *floats[1:])
            scalar = scalar_of(self.name, *given, whole)
            places.append(scalars.setdefault(scalar, len(scalars)) if scalar else None)
        found = scalar_of(self.name, extent, atoms, bases, whole)
        if found is None and int(extent[0][1]) == 1 and self.extents:
            # No draw may have two blocks of elements, and a larger size all the same.
            counts = [("i32", n) for n in blocks_far_off(self.at, drawn)]
            elements = scalar_of(self.name, counts, atoms, bases, whole) if counts else None
            if elements:
                return places, tuple(scalars), (elements.size + (BLOCK - 1)) // BLOCK
        return places, tuple(scalars), found.size if found else size(int(extent[0][1]))

    def _told(
        self, samples: Sequence[Sample], wanted: Wanted, whole: Sequence[Size]
    ) -> tuple[list[tuple[Constant, ...]], Numbers, dict[Vector, Size]]:
        """The constants by place, and what explains those of these samples."""
        rows = list(zip(*(s.constants for s in samples), strict=True))
        atoms = self._atoms([s.sizes for s in samples], wanted, whole)
        return rows, atoms, bases_of(rows, atoms)

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

    def _samples(self, wanted: Wanted, small: tuple[str, ...]) -> tuple[list[Sample], list[Sample]]:
        """Samples of one skeleton, at sizes that leave the wanted remainders: to fit, to check."""
        groups: dict[object, list[Sample]] = {}
        drawn = itertools.islice(self._drawing.sizes(wanted), _TRIES)
        first = list(itertools.islice(drawn, _SAMPLES + _HELD_OUT if self.extents else 0))
        apart = [told for told in self.told if told not in self._drawing.turned]
        self.ends |= cuts(lambda sizes: self._scheduled(sizes, small)[1], apart, first[:2])
        if len(first) == _SAMPLES + _HELD_OUT:
            with contextlib.suppress(Differs):
                skeleton, samples = self._together(first, small)
                further = self._further(skeleton, wanted, small)
                return samples[:_SAMPLES], [*samples[_SAMPLES:], *further]
        for sizes in itertools.chain(first, drawn):
            skeleton, sample = self._sample(sizes, small)
            group = groups.setdefault(skeleton, [])
            group.append(sample)
            if not self.extents:
                return group, []
            if len(group) == _SAMPLES + _HELD_OUT:
                further = self._further(skeleton, wanted, small)
                return group[:_SAMPLES], [*group[_SAMPLES:], *further]
        raise refused(f"the code of {self.name} changes with its sizes")

    def _further(self, skeleton: object, wanted: Wanted, small: tuple[str, ...]) -> list[Sample]:
        """What tells of a kernel whose loops follow from windows whether its formulas hold, at
        sizes of other remainders, as far as these have the same code."""
        drawing = self._drawing
        drawn = drawing.further(wanted) if drawing.keeps_loops or drawing.tile is not None else []
        if not drawn:
            return []
        with contextlib.suppress(Differs):
            same, samples = self._at_once(drawn, small)
            if same == skeleton:
                return [replace(sample, own_floats=False) for sample in samples]
        alone = (self._sample(sizes, small) for sizes in drawn[:_ALONE])
        return [sample for own, sample in alone if own == skeleton]

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
        functions = lowered(program, loops, self._drawing.keeps_loops or bool(self.ends))
        read = [parts(function) for function in functions]
        constants = [c for _, found in read for c in found]
        constants.append(("i32", loops[0].parallel_extent))
        skeleton = (tuple(rest for rest, _ in read), loops[0].panels)
        return skeleton, Sample(sizes, functions, tuple(constants), loops[0].panels)

    def _together(
        self, drawn: Sequence[Sizes], small: tuple[str, ...]
    ) -> tuple[object, list[Sample]]:
        """The skeleton and the samples of a kernel that is compiled once for all; the last one for
        itself too.

        Raises
        ------
        Differs
            When they have no one code.
        """
        skeleton, samples = self._at_once(drawn, small)
        alone, last = self._sample(drawn[-1], small)
        if alone != skeleton or last.constants != samples[-1].constants:
            raise Differs
        return skeleton, samples

    def _at_once(
        self, drawn: Sequence[Sizes], small: tuple[str, ...]
    ) -> tuple[object, list[Sample]]:
        """The same with the floats of the first sizes."""
        whole = {d.name: several(sizes[d.name] for sizes in drawn) for d in self.dims}
        skeleton, made = self._read(drawn[0], *self._scheduled(whole, small))
        return skeleton, [
            replace(made, sizes=sizes, constants=tuple((t, at(v, i)) for t, v in made.constants))
            for i, sizes in enumerate(drawn)
        ]

    def _tile(self, program: Program, small: tuple[str, ...]) -> Candidate | None:
        found = match(program) if self.map is not None else None
        if self.map is None or not found or not isinstance(found.subject, Conv2d):
            return self.tuned
        return tile_of(found.subject, self.map, small, self.tuned)

    def _atoms(self, samples: Sequence[Sizes], wanted: Wanted, whole: Sequence[Size]) -> Numbers:
        tiled = [cut for cut, _, _ in wanted]
        first = self.attention.units if self.attention else ()
        bases = tuple(dict.fromkeys((*first, *whole, *tiled)))
        divisors = {*DIVISORS, *self.cuts, *(by for _, by, _ in wanted)}
        return atoms_of(samples, bases, self.shapes, divisors, self.told)
