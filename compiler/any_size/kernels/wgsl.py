"""WGSL kernels whose sizes are in a uniform block: compiled once, for any size.

A kernel's document is made at a few sizes by one schedule. What differs are numbers in its text,
its counts of workgroups and its scratch; each number of the text becomes an element of the block,
with a formula. Sizes are drawn that tiles and vectors do not divide, so that the text has every
guard that some size needs, and no loads of vectors that some size cannot have. Texts at other sizes
are witnesses: they decide between formulas that all samples allow.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from nnjit_studio.compiler.any_size.formulas.fit import Numbers, Vector
from nnjit_studio.compiler.any_size.kernels.compiled import At
from nnjit_studio.compiler.any_size.kernels.functions import Constant, bits_of
from nnjit_studio.compiler.any_size.kernels.gpu_guess import usual_guesses
from nnjit_studio.compiler.any_size.kernels.gpu_samples import drawn_sizes, even_sizes, neighbours
from nnjit_studio.compiler.any_size.kernels.samples import told_dims
from nnjit_studio.compiler.any_size.kernels.scalars import (
    DIVISORS,
    Sizes,
    atoms_of,
    bases_of,
    parts_of,
    scalar_of,
    vector_of,
)
from nnjit_studio.compiler.any_size.kernels.wgsl_text import skeleton_of, tokens_of, with_sizes
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wgsl import held_document, held_schedule
from nnjit_studio.compiler.templates import match
from nnjit_studio.compiler.wgsl.core.document import KernelDocument
from nnjit_studio.compiler.wgsl.core.emit import LARGEST_GRID
from nnjit_studio.compiler.wgsl.templates.matmul_tiled import without_bands
from nnjit_studio.errors import CompileError, ModelError
from nnjit_studio.model.open_plan import OpenDispatch, OpenDocument, Scalar
from nnjit_studio.model.size import Dim, Size, least, size
from nnjit_studio.records import GPU_TIERS, Kernel
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.wasm.attention import ATTENTION

TIER = GPU_TIERS[0]
BLOCK = "z"
"""The uniform block, as a document calls it."""
_SAMPLES = 6
"""Formulas are fitted to so many samples,"""
_HELD_OUT = 6
"""and have to be right at so many more."""
_BEHIND = (0, 1)
"""Of a tile that ends one behind its beginning, all elements but the first have guards."""
_MOST_SIZES = 4096
"""Of a uniform block of 64 KiB, which every device has."""
_TILES = (4, 8, 16, 32, 64, 128, 256)
_ROUNDED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_WARPS = 4
"""From which of these on they are threads of a workgroup."""

Form = Callable[[Sequence[Program]], tuple[list[KernelDocument], tuple[int, ...]]]
"""A way to make documents of programs by one schedule, and the numbers that it cuts by."""


def any_size_document(
    name: str,
    at: At,
    extents: Sequence[Size],
    dims: Sequence[Dim],
    shapes: Sequence[Size],
    example: Sizes,
    tier: str = TIER,
) -> Kernel:
    """The WGSL kernel of a program of which only numbers change with sizes.

    By its template with a guess, where that has one text for all sizes, else by the default
    schedule. See :func:`.compiled.any_size_kernel` for the first parameters.

    Parameters
    ----------
    example
        Sizes at hand.
    tier
        One of ``GPU_TIERS``.

    Raises
    ------
    ModelError
        When neither has.
    """
    first = ""
    count = _SAMPLES + _HELD_OUT
    # What a dimension leaves that no extent has, such as a past beside its keys, may be even.
    own = (*extents, *shapes) or tuple(map(size, dims))
    drawn = [drawn_sizes(tuple(dims), own, behind, count) for behind in _BEHIND]
    bases = tuple(dict.fromkeys((*told_dims(at, dims, own, drawn[0]), *extents)))
    programs = [[at(sizes) for sizes in samples] for samples in drawn]
    even = list(even_sizes(dims))
    beside = list(neighbours(dims, bases))
    elsewhere = [at(sizes) for sizes in (*even, *beside)]
    forms: list[Form] = [partial(_by_default, tier=tier)]
    if (found := match(programs[0][0])) and found.template.wgsl:
        guesses = usual_guesses(at, dims, example, programs[0][0])
        # By the default schedule, attention is slower than its three kernels.
        last = [] if found.subject.kind == ATTENTION else forms
        forms = [*(partial(_by_template, guess=guess, tier=tier) for guess in guesses), *last]
    for form, which in itertools.product(forms, range(len(drawn))):
        try:
            documents, cuts = form([*programs[which], *elsewhere])
            fitted, others = documents[: len(drawn[which])], documents[len(drawn[which]) :]
            told = others[: len(even)]
            witnesses = [(s, _numbers(d)) for s, d in zip(even, told, strict=True)]
            unifier = _Unifier(name, drawn[which], bases, tuple(shapes), cuts, witnesses)
            made = unifier.unified(fitted)
            _check_counts(name, made, told, even)
            _check_neighbours(name, made, fitted[0], others[len(even) :], beside)
            if which:
                _check_elsewhere(name, made, form(programs[0])[0], drawn[0])
        except (CompileError, ModelError) as error:
            first = first or error.error.rpartition(": ")[2].rstrip(".")
            continue
        data = made.to_bytes()
        return Kernel(name, None, tier, data, hashlib.sha256(data).hexdigest())
    raise refused(f"{name} has no WGSL kernel for all sizes ({first})")


def _check_elsewhere(
    name: str, made: OpenDocument, documents: Sequence[KernelDocument], samples: Sequence[Sizes]
) -> None:
    """Refuse formulas that say what stands nowhere in the kernels of odd sizes, which lack some
    guards: sizes that leave one remainder cannot tell all formulas apart."""
    for document, sizes in zip(documents, samples, strict=True):
        numbers = _numbers(document)
        for scalar in made.sizes:
            if scalar.at(sizes) not in numbers:
                text = ", ".join(f"{n} {v}" for n, v in sizes.items())
                raise refused(f"a formula of the WGSL of {name} is wrong at {text}")


def _check_neighbours(
    name: str, made: OpenDocument, first: KernelDocument,
    documents: Sequence[KernelDocument], samples: Sequence[Sizes],
) -> None:  # fmt: skip
    """Refuse formulas that are wrong where a size or its neighbour is a multiple of four."""
    _check_counts(name, made, documents, samples)
    alike = [_outline(document) == _outline(first) for document in documents]
    same = [d for d, is_same in zip(documents, alike, strict=True) if is_same]
    there = [sizes for sizes, is_same in zip(samples, alike, strict=True) if is_same]
    _check_elsewhere(name, made, same, there)


def _check_counts(
    name: str, made: OpenDocument, documents: Sequence[KernelDocument], samples: Sequence[Sizes]
) -> None:
    """Refuse formulas that give fewer workgroups than the kernels of other sizes have."""
    for document, sizes in zip(documents, samples, strict=True):
        for mine, other in zip(made.dispatches, document.dispatches, strict=False):
            wanted = math.prod(n for n in other.workgroups if n > 0)
            if math.prod(n.at(sizes) for n in mine.workgroups) < wanted:
                text = ", ".join(f"{n} {v}" for n, v in sizes.items())
                raise refused(f"the WGSL of {name} has too few workgroups at {text}")


def _numbers(document: KernelDocument) -> frozenset[int]:
    """All numbers that stand in a document."""
    return frozenset(token.bits for d in document.dispatches for token in tokens_of(d.code))


def _by_template(
    programs: Sequence[Program], guess: GpuCandidate, tier: str
) -> tuple[list[KernelDocument], tuple[int, ...]]:
    """By the template of the programs, and what its tiles cut."""
    documents = []
    for program in programs:
        found = match(program)
        form = found.template.wgsl if found else None
        made = form.document(program, found.subject, guess, tier) if found and form else None
        if made is None:
            raise CompileError(f"No template takes {program.name}.", "Use the default schedule.")
        documents.append(_unbanded(made))
    return documents, (guess.x0, guess.y0, guess.r0, guess.x1, guess.y1, guess.r1)


def _unbanded(document: KernelDocument) -> KernelDocument:
    """Without the bands that tiles are taken in at some sizes."""
    return replace(
        document,
        dispatches=tuple(replace(d, code=without_bands(d.code)) for d in document.dispatches),
    )


def _by_default(
    programs: Sequence[Program], tier: str
) -> tuple[list[KernelDocument], tuple[int, ...]]:
    held = held_schedule(programs[0], programs[1], tier)
    return [_folded(held_document(program, tier, held)) for program in programs], ()


def _folded(document: KernelDocument) -> KernelDocument:
    """Its counts of workgroups in rows, as the code counts them: -1 rows stand for any number."""
    return replace(
        document,
        dispatches=tuple(
            replace(d, workgroups=(d.workgroups[0], -1, 1)) for d in document.dispatches
        ),
    )


@dataclass
class _Unifier:
    name: str
    samples: Sequence[Sizes]
    bases: tuple[Size, ...]
    shapes: tuple[Size, ...]
    cuts: tuple[int, ...]
    """Rows and columns of tiles."""
    witnesses: Sequence[tuple[Sizes, frozenset[int]]]
    """Sizes of other remainders, and the numbers that stand in the texts there."""

    def unified(self, documents: Sequence[KernelDocument]) -> OpenDocument:
        """One document of several, of which the last are held out."""
        first = documents[0]
        if any(_outline(d) != _outline(first) for d in documents[1:]):
            raise refused(f"the WGSL of {self.name} changes with its sizes in more than numbers")
        texts = [[tokens_of(d.code) for d in document.dispatches] for document in documents]
        codes = list(zip(*(itertools.chain(*each) for each in texts), strict=True))
        rows = [[token.constant for token in row] for row in codes]
        atoms = self._atoms()
        known = [row[:_SAMPLES] for row in rows]
        bases = bases_of(known, atoms)
        if parts := tuple(parts_of(known, bases)):
            atoms = self._atoms(parts)
            bases = bases_of(known, atoms)
        formulas = [self._formula(row, atoms, bases, self.witnesses) for row in rows]
        scalars = list(dict.fromkeys(f for f in formulas if f is not None))
        if len(scalars) > _MOST_SIZES:
            raise refused(f"the WGSL of {self.name} has {len(scalars)} numbers that change")
        upcoming = iter(formulas)
        dispatches = []
        for number, dispatch in enumerate(first.dispatches):
            given = [next(upcoming) for _ in texts[0][number]]
            counts = [d.dispatches[number].workgroups for d in documents]
            code = with_sizes(dispatch.code, given, scalars, len(dispatch.bindings), self.name)
            open_ = code != dispatch.code
            dispatches.append(
                OpenDispatch(
                    code,
                    self._grid(counts, atoms, bases),
                    (*dispatch.bindings, *([BLOCK] if open_ else [])),
                    (*dispatch.access, *(["uniform"] if open_ else [])),
                    dispatch.entry,
                )
            )
        scratch = zip(*(d.scratch for d in documents), strict=True)
        return OpenDocument(
            tuple(scalars),
            tuple(self._count(n, atoms, bases) for n in scratch),
            first.requires,
            tuple(dispatches),
        )

    def _atoms(self, parts: Sequence[Size] = ()) -> Numbers:
        fitted = self.samples[:_SAMPLES]
        # Tiles round up, so that goes before what the divisors would say of other remainders.
        cuts = sorted({by for by in self.cuts if by > 1})
        plain = sorted(self.bases, key=lambda base: base.at(fitted[0]))
        tiles = [(base + (by - 1)) // by for by in cuts for base in plain]
        bases = tuple(dict.fromkeys((*self.bases, *tiles)))
        return atoms_of(fitted, bases, (*parts, *self.shapes), (*DIVISORS, *_TILES))

    def _formula(
        self,
        row: Sequence[Constant],
        atoms: Numbers,
        bases: Mapping[Vector, Size],
        witnesses: Sequence[tuple[Sizes, frozenset[int]]] = (),
    ) -> Scalar | None:
        """Of one number at all samples; it was fitted to the first of them.

        What whole workgroups would explain, the witnesses decide.
        """
        if len(set(row)) == 1:
            return None
        exact = self._exact(row, atoms, bases)
        whole = list(self._whole_groups(row, bases))
        for found in (exact, *whole):
            if found is not None and (
                not whole or all(found.at(sizes) in told for sizes, told in witnesses)
            ):
                return found
        raise refused(f"the WGSL of {self.name} has no formula for one of its numbers")

    def _exact(
        self, row: Sequence[Constant], atoms: Numbers, bases: Mapping[Vector, Size]
    ) -> Scalar | None:
        """A formula that is right at all samples, if there is one."""
        try:
            found = scalar_of(self.name, row[:_SAMPLES], atoms, bases, self.bases)
        except ModelError:
            return None
        told = zip(row, self.samples, strict=True)
        right = found is not None and all(found.at(at) == bits_of(value) for value, at in told)
        return found if right else None

    def _grid(
        self,
        counts: Sequence[tuple[int, int, int]],
        atoms: Numbers,
        bases: Mapping[Vector, Size],
    ) -> tuple[Size, Size, Size]:
        x, y, z = (tuple(axis) for axis in zip(*counts, strict=True))
        across = self._count(x, atoms, bases)
        if y[0] < 0:
            rows = (across + (LARGEST_GRID - 1)) // LARGEST_GRID
            return least(across, LARGEST_GRID), rows, size(1)
        return across, self._count(y, atoms, bases), self._count(z, atoms, bases)

    def _whole_groups(
        self, row: Sequence[Constant], bases: Mapping[Vector, Size]
    ) -> Iterator[Scalar]:
        """Formulas of the threads of whole workgroups of one size: ``64 * ceil(n / 64)``."""
        if row[0][0] != "i32":
            return
        counts = tuple(int(value) for _, value in row)
        for by in _ROUNDED[-1:_WARPS:-1]:
            if all(n % by == 0 for n in counts):
                rounded = self._rounded([n // by for n in counts], bases, (by,))
                for groups in (rounded, self._padded(counts, by)):
                    if groups is not None:
                        yield Scalar("int", groups * by)

    def _padded(self, counts: Vector, by: int) -> Size | None:
        """Workgroups of ``by`` threads for a product of sizes that may stand nowhere in the text;
        96 n + 32 at odd n."""
        for spare in range(_WARPS, by, _WARPS):
            base = self._products.formula(tuple(n - spare for n in counts[:_SAMPLES]))
            if base is not None and all(factors for factors, _ in base.terms):
                vector = vector_of(base, self.samples)
                if all(-(-n // by) * by == count for n, count in zip(vector, counts, strict=True)):
                    return (base + (by - 1)) // by
        return None

    @cached_property
    def _products(self) -> Numbers:
        fitted = self.samples[:_SAMPLES]
        return Numbers({vector_of(base, fitted): base for base in (*self.bases, *self.shapes)})

    def _rounded(
        self, row: Sequence[int], bases: Mapping[Vector, Size], by: Sequence[int]
    ) -> Size | None:
        """What has as many parts of one size, the last one of which may be smaller."""
        found = []
        for base in (*self.bases, *bases.values()):
            values = vector_of(base, self.samples)
            for part in by:
                if all(-(-n // part) == count for n, count in zip(values, row, strict=True)):
                    found.append((sum(values) / part, (base + (part - 1)) // part))
        # Too many workgroups find nothing to do; too few would leave points out.
        return max(found, key=lambda each: each[0])[1] if found else None

    def _count(self, row: Vector, atoms: Numbers, bases: Mapping[Vector, Size]) -> Size:
        """The formula of a count: most are a number of the text, rounded up to whole workgroups."""
        if len(set(row)) == 1:
            return size(row[0])
        rounded = self._rounded(row, bases, _ROUNDED)
        if rounded is not None:
            return rounded
        found = self._formula([("i32", n) for n in row], atoms, bases)
        assert found is not None
        return found.size


def _outline(document: KernelDocument) -> object:
    """What has to be equal at all sizes."""
    dispatches = tuple(
        (skeleton_of(d.code), d.bindings, d.access, d.entry) for d in document.dispatches
    )
    return dispatches, document.requires, len(document.scratch)
