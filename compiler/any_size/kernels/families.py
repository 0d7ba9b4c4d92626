"""What is the same of a kernel at all sizes: how it is called in the kernel database."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from nnjit_studio.compiler.any_size.formulas.fit import Numbers
from nnjit_studio.compiler.any_size.kernels.compiled import At
from nnjit_studio.compiler.any_size.kernels.part import Part
from nnjit_studio.compiler.any_size.kernels.remainders import unblocked
from nnjit_studio.compiler.any_size.kernels.scalars import vector_of
from nnjit_studio.compiler.any_size.kernels.small_maps import open_extents, tile_of, tiled
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import match, subject_of
from nnjit_studio.errors import CompileError
from nnjit_studio.model.family import Family
from nnjit_studio.model.size import Atom, Dim, Size, least, most, size
from nnjit_studio.records.candidate import Candidate

_APART = (29, 37)
"""Steps of the first dimension at which extents that stay open differ,"""
_FURTHER = (54, 71, 101)
"""and at which they have a formula too."""


def family_of(symbolic: Any, at: At, dims: Sequence[Dim]) -> Family | None:
    """The family of a kernel with settings to choose; None of any other.

    Parameters
    ----------
    symbolic
        Its program with formulas in the place of numbers that vary.
    at
        Its program at sizes of the dimensions.
    """
    first, second = (at(_sizes(dims, steps)) for steps in _APART)
    subjects = subject_of(first), subject_of(second)
    if None in subjects:
        return None
    one, other = (workload_for(p, s) for p, s in zip((first, second), subjects, strict=True))
    pairs = zip(one.dims, other.dims, strict=True)
    extents = tuple(a if a == b else None for a, b in pairs)
    if not one.tunable or one.kind != other.kind or None not in extents:
        return None
    return Family(one.kind, extents, one.dtype, one.epilogue, _fingerprint(symbolic))


def settings_at(programs: Sequence[Program], tile: Candidate | None) -> tuple[Candidate, ...]:
    """What a kernel for any size makes of settings, or of none, at each of these sizes.

    Parameters
    ----------
    programs
        Of one kernel, at several sizes in ascending order.

    Raises
    ------
    CompileError, ModelError
        When the kernel has no such settings.
    """
    convolutions = [found for program in programs if (found := tiled(program))]
    if len(convolutions) == len(programs):
        extents = open_extents(convolutions)
        return tuple(tile_of(each, extents, (), tile) for each in convolutions)
    last = match(programs[-1])
    guess = last.template.wasm.guess(last.subject) if last and last.template.wasm else None
    subjects = [subject_of(program) for program in programs]
    inner = [s.contraction if isinstance(s, Quantised) else s for s in subjects]
    products = [s for s in inner if isinstance(s, Contraction)]
    if guess is None or len(products) < len(programs):
        raise CompileError(f"{programs[-1].name} has no settings for any size.")
    return (unblocked(tile or guess, products),) * len(programs)


def extent_of(family: Family, part: Part, dims: Sequence[Dim]) -> Size:
    """A formula for the first extent that stays open.

    Raises
    ------
    ModelError
        When none is found.
    """
    drawn = [_sizes(dims, steps) for steps in (*_APART, *_FURTHER)]
    sizes = (*map(size, dims), *part.extents)
    numbers = Numbers({vector_of(each, drawn): each for each in sizes})
    programs = [part.at(sizes) for sizes in drawn]
    extents = (workload_for(p, subject_of(p)).dims[family.axis] for p in programs)
    found = numbers.formula(tuple(extents))
    if found is None:
        raise refused(f"the extents of {part.name} have no formula")
    return found


def _sizes(dims: Sequence[Dim], steps: int) -> dict[str, int]:
    """So many steps from the smallest size on, and some more for each further dimension."""
    first = ((d, -(-d.low // d.step)) for d in dims)
    return {d.name: d.step * (low + steps + 2 * i) for i, (d, low) in enumerate(first)}


def _fingerprint(symbolic: Any) -> str:
    stages = tuple(replace(stage, name="") for stage in symbolic.stages)
    called = _called(replace(symbolic, name="", stages=stages), {})
    return hashlib.sha256(repr(called).encode()).hexdigest()[:12]


def _called(tree: Any, names: dict[Dim, Dim]) -> Any:
    """The same with dimensions called by the order in which they come, without their ranges."""
    if isinstance(tree, Size):
        return _sum_called(tree, names)
    if isinstance(tree, tuple):
        return tuple(_called(part, names) for part in tree)
    if is_dataclass(tree):
        kind: Any = type(tree)
        return kind(*(_called(getattr(tree, f.name), names) for f in fields(kind)))
    return tree


def _sum_called(value: Size, names: dict[Dim, Dim]) -> Size:
    total = size(0)
    for monomial, coefficient in value.terms:
        product = size(coefficient)
        for atom in monomial:
            product = product * _atom_called(atom, names)
        total = total + product
    return total


def _atom_called(atom: Atom, names: dict[Dim, Dim]) -> Size:
    if isinstance(atom, Dim):
        return size(names.setdefault(atom, Dim(f"d{len(names)}")))
    a, b = _sum_called(atom.a, names), _sum_called(atom.b, names)
    if atom.op == "floordiv":
        return a // (b.constant or 1)
    return least(a, b) if atom.op == "min" else most(a, b)
