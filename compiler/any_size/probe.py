"""What a model does at other sizes than those at hand, asked of native ONNX Runtime.

A dimension that is declared open may be baked in by the exporter, or want multiples of 32. So
each is tried at other sizes, alone; then sizes are drawn for all, and the shapes of every tensor
at these are what formulas are made from.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nnjit_studio.compiler.any_size.formulas.fit import Fit, Slid, Vector
from nnjit_studio.compiler.any_size.inputs import Axes, Feeds, Sizes, input_shapes, sizes_of, sum_of
from nnjit_studio.compiler.any_size.runs.trial import TIMES, Trial, furthest
from nnjit_studio.compiler.any_size.windows import Shapes, Slide
from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.model.size import LARGEST, Dim, Size

SAMPLES = 10
_ENOUGH = 8
_TRIES = 60
_STEPS = (1, 2, 4, 8, 16, 32, 64)
_RESIDUES = 8
_REACH = 257
"""A far size is at least so far above the smallest: beyond the strides of a network."""
_BLOCKS = 3
"""Sizes are drawn from as many times all residues, above the smallest."""


@dataclass(frozen=True)
class Probe:
    """What was found of a model."""

    inputs: Axes
    dims: tuple[Dim, ...]
    """Those that are open indeed."""
    fixed: Sizes
    """Those that are declared open, but run at one size only."""
    samples: tuple[Sizes, ...]
    shapes: tuple[Shapes, ...]
    """Of every tensor, in order of execution, at each of the samples; what sizes are divided by
    gives numbers, which stand there too."""
    slides: tuple[Slide, ...] = ()
    """The model's windows, in order of execution."""

    def input_shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Of all inputs at sizes of the open dimensions."""
        return input_shapes(self.inputs, {**self.fixed, **sizes})

    def vectors(self) -> list[Vector]:
        """Each size of each tensor at all samples, in order of execution."""
        if not self.shapes:
            return []
        first, *others = self.shapes
        steady = [n for n in first if all(len(s.get(n, ())) == len(first[n]) for s in others)]
        return [v for n in steady for v in zip(*(s[n] for s in self.shapes), strict=True)]

    def fit(self) -> Fit:
        """The formulas of these sizes."""
        fit = Fit(self.dims, self.samples, self.slid())
        fit.learn(self.vectors())
        return fit

    def strides(self) -> dict[str, int]:
        """By dimension, what sizes of tensors are divided by."""
        found: dict[str, int] = {}
        for dim, by in (pair for formula in self.fit().formulas for pair in formula.divided()):
            found[dim.name] = math.lcm(found.get(dim.name, 1), by)
        return found

    def far(self, trial: Trial) -> list[Sizes]:
        """Those of the samples with the largest size of a dimension, as far as they run."""
        names = [dim.name for dim in self.dims]
        largest = (max(self.samples, key=lambda sizes: sizes[name]) for name in names)
        found = [{name: sizes[name] for name in names} for sizes in largest]
        return [at for at in found if trial.runs({**self.fixed, **at})]

    def slid(self) -> list[Slid]:
        """What each window makes of each extent of its map, at all samples."""
        held = set(self.shapes[0]).intersection(*self.shapes) if self.shapes else set()
        return [
            (
                self._extents(slide.tensor, place.axis),
                self._extents(slide.result, place.axis),
                place.shift,
                place.stride,
                place.extent,
            )
            for slide in self.slides
            if {slide.tensor, slide.result} <= held
            for place in slide.places
        ]

    def _extents(self, tensor: str, axis: int) -> Vector:
        return tuple(shapes[tensor][axis] for shapes in self.shapes)

    def bounded(self, name: str, high: int) -> Probe:
        """The same with a largest size of a dimension."""
        dims = tuple(replace(d, high=high) if d.name == name else d for d in self.dims)
        return replace(self, dims=dims)

    def without(self, names: Iterable[str], example: Sizes) -> Probe:
        """The same where some dimensions keep the example's sizes."""
        kept = {name: example[name] for name in names}
        dims = tuple(d for d in self.dims if d.name not in kept)
        return replace(self, dims=dims, fixed={**self.fixed, **kept})


def probe(trial: Trial, feeds: Feeds) -> Probe:
    """Find which dimensions of a model are open, beginning at the sizes of arrays at hand.

    Raises
    ------
    ModelError, UserError
        When ONNX Runtime does not run the model on these arrays, or too few other sizes.
    """
    example = sizes_of(trial.inputs, feeds)
    trial.run(example)
    _unite_ones(trial, example)
    example, dims, stuck = _looked_at(trial, feeds)
    if _unite(trial, stuck, example):
        example, dims, stuck = _looked_at(trial, feeds)
    while by := sum_of(stuck, example, trial.runs):
        trial.relate(by)
        example, dims, stuck = _looked_at(trial, feeds)
    opened = tuple(d for d in dims if d.step)
    fixed = {d.name: d.low for d in dims if not d.step}
    return sampled(trial, Probe(trial.inputs, opened, fixed, (), (), trial.slides), example)


def sampled(trial: Trial, found: Probe, example: Sizes) -> Probe:
    """The same with samples in its ranges.

    Raises
    ------
    ModelError
        When ONNX Runtime runs too few such sizes.
    """
    samples, shapes = _samples(trial, found.dims, found.fixed, example)
    found = replace(found, samples=tuple(samples), shapes=tuple(shapes))
    return _with_far_sizes(trial, _ended(found), example)


def _ended(found: Probe) -> Probe:
    """The same, where a dimension ends before a size that shrinks as it grows would be none."""
    for formula in found.fit().formulas:
        for dim in formula.dims if len(formula.dims) == 1 else ():
            most = dim.high // dim.step
            if _at(formula, dim, most) < 1:
                known = max(sizes[dim.name] for sizes in found.samples) // dim.step
                leaves = partial(_leaves, formula, dim)
                most = furthest(leaves, 0, 1, known, most) * dim.step
                found = found.bounded(dim.name, min(most, dim.high))
    return found


def _at(formula: Size, dim: Dim, steps: int) -> int:
    return formula.at({dim.name: steps * dim.step})


def _leaves(formula: Size, dim: Dim, steps: int) -> bool:
    return _at(formula, dim, steps) > 0


def in_whole_steps(trial: Trial, found: Probe, example: Sizes) -> Probe | None:
    """The same at sizes alone of which the strides of windows leave nothing over, since what is
    left over may be other code; None where no stride does, or these at hand leave something.

    Raises
    ------
    ModelError
        When ONNX Runtime runs too few such sizes.
    """
    dims = tuple(map(partial(_in_steps, found.strides()), found.dims))
    if dims == found.dims or not all(d.takes(example[d.name]) for d in dims):
        return None
    return sampled(trial, replace(found, dims=dims), example)


def _in_steps(strides: Mapping[str, int], dim: Dim) -> Dim:
    step = math.lcm(dim.step, strides.get(dim.name, 1))
    high = dim.high if dim.high == LARGEST else dim.high // step * step
    return replace(dim, low=-(-dim.low // step) * step, high=high, step=step)


def _with_far_sizes(trial: Trial, found: Probe, example: Sizes) -> Probe:
    """With a large size of each dimension that windows slide along, the others being small: what
    is one place at all other samples, such as the last map's, may be several there."""
    least = {d.name: min(sizes[d.name] for sizes in found.samples) for d in found.dims}
    for dim in found.dims if found.samples else ():
        if not any(f.dims == {dim} and f.is_rounded for f in found.fit().formulas):
            continue
        n = min(max(TIMES * example[dim.name], dim.low + _REACH), dim.high) // dim.step
        while dim.step * n > max(sizes[dim.name] for sizes in found.samples):
            at = {**least, dim.name: dim.step * n}
            if len(set(at.values())) == len(at) and trial.runs({**found.fixed, **at}):
                found = _with_sample(trial, found, at)
                break
            n = n * 3 // 4
    return found


def _with_sample(trial: Trial, found: Probe, at: Sizes) -> Probe:
    shapes = trial.looked_at({**found.fixed, **at})
    return replace(found, samples=(*found.samples, at), shapes=(*found.shapes, shapes))


def _looked_at(trial: Trial, feeds: Feeds) -> tuple[dict[str, int], list[Dim], list[str]]:
    """The sizes at hand, what each dimension may be alone, and those that may be nothing else."""
    example = sizes_of(trial.inputs, feeds)
    dims = [_explored(trial, [name], example) for name in example]
    return example, dims, [d.name for d in dims if not d.step]


def _explored(trial: Trial, names: Sequence[str], example: Sizes) -> Dim:
    """What several names of one size may be: their range and their step.

    The step is 0 where the model runs at this size alone, or at none below it: then larger ones
    may run without having any effect.
    """
    n = example[names[0]]

    def runs(size: int) -> bool:
        return trial.runs({**example, **dict.fromkeys(names, size)})

    for step in _STEPS:
        if n % step == 0 and runs(n + step) and runs(n + 3 * step):
            below = (k * step for k in _STEPS if k * step < n)
            low = next((size for size in below if runs(size)), n)
            # Each of these is twice the one before, which does not run.
            apart = low // (2 * step) if low < n else n // step
            low = furthest(runs, low, -step, 0, max(1, apart))
            high = LARGEST
            if not runs(2 * n + step):
                high = furthest(runs, n, step, 3, n // step + 1)
            if low < n or n == step:
                return Dim(names[0], low, high, step)
    return Dim(names[0], n, n, 0)


def _unite(trial: Trial, names: Sequence[str], example: Sizes) -> bool:
    """Make one dimension of those that can change together alone; whether there are any."""
    united = False
    for size in sorted({example[name] for name in names}):
        group = [name for name in names if example[name] == size]
        if len(group) > 1 and _explored(trial, group, example).step:
            trial.relate(dict.fromkeys(group, group[0]))
            united = True
    return united


def _unite_ones(trial: Trial, example: Sizes) -> None:
    """Make one dimension of those that are 1 and can only be more together: alone, one of them may
    change where the others are stretched to it."""
    two = {name: 2 for name, n in example.items() if n == 1}
    if len(two) < 2 or not trial.runs({**example, **two}):
        return
    group = [name for name in two if not trial.runs({**example, **two, name: 3})]
    if len(group) > 1 and trial.runs({**example, **two, **dict.fromkeys(group, 3)}):
        trial.relate(dict.fromkeys(group, group[0]))


def _samples(
    trial: Trial, dims: Sequence[Dim], fixed: Sizes, example: Sizes
) -> tuple[list[Sizes], list[Shapes]]:
    """Sizes of all open dimensions at once, apart from each other and from 1."""
    rng = random.Random(0)
    residues: dict[str, list[int]] = {d.name: [] for d in dims}
    samples: list[Sizes] = []
    shapes: list[Shapes] = []
    for attempt in range(_TRIES if dims else 0):
        far = dims[attempt // 2 % len(dims)].name if attempt % 2 else ""
        drawn = {}
        for dim in dims:
            blocks = min(example[dim.name] // (dim.step * _RESIDUES), _BLOCKS)
            above = max(dim.low, 2 * example[dim.name] if dim.name == far else 0)
            above += rng.randint(0, blocks) * _RESIDUES * dim.step
            residues[dim.name] = residues[dim.name] or rng.sample(range(_RESIDUES), _RESIDUES)
            drawn[dim.name] = _drawn(dim, above, residues[dim.name].pop())
        whole = {**fixed, **drawn}
        if len(set(drawn.values())) == len(drawn) and trial.runs(whole):
            # All tensors at once may not fit where the outputs do.
            with contextlib.suppress(UserError):
                shapes.append(trial.looked_at(whole))
                samples.append(drawn)
        if len(samples) == SAMPLES:
            break
    if dims and len(samples) < _ENOUGH:
        raise ModelError(
            "ONNX Runtime runs the model at too few sizes to tell how it depends on them: "
            f"{', '.join(d.name for d in dims)}.",
            "Fix some of them with --dim.",
        )
    return samples, shapes


def _drawn(dim: Dim, above: int, residue: int) -> int:
    """A size at least ``above`` whose steps leave this residue: roundings show in some sample."""
    first, most = max(dim.low // dim.step, above // dim.step, 2), dim.high // dim.step
    first += (residue - first) % _RESIDUES
    first -= max(0, -(-(first - most) // _RESIDUES)) * _RESIDUES
    return max(first * dim.step, dim.low)
