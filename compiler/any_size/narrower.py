"""Ways to one program for many sizes: other forms of it, then fewer sizes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.compiler.any_size.probe import Probe, in_whole_steps, sampled
from nnjit_studio.compiler.any_size.refusal import COMPUTED, DIFFERENT_STEPS, NO_ROWS
from nnjit_studio.compiler.any_size.runs.importer import Form
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.errors import ModelError
from nnjit_studio.model.size import LARGEST, Dim

_FAR = 64
_LONG, _PART = 512, 4
"""Samples of a long signal, and the part of one that is none of the shortest."""
_OUT = "For another one, export with --inputs of that size."


@dataclass
class Tried:
    """Why forms of the program with all sizes open were refused: others that would be refused for
    the same reason are left out, and so are the imports that would tell."""

    found: Probe
    reasons: dict[Form, str] = field(default_factory=dict)
    ranges: bool = False
    """Whether there are Ranges over sizes."""

    def note(self, narrow: Probe, form: Form, why: str, ranges: bool) -> None:
        self.ranges = self.ranges if form.keeps_ranges else ranges
        if narrow.fixed == self.found.fixed:
            self.reasons.setdefault(form, why)

    def rules_out(self, narrow: Probe, form: Form) -> bool:
        """Whether a form has nothing to keep, or a constant that hangs on sizes in any case; odd
        sizes help where steps differ, and nowhere else."""
        if form.keeps_ranges and not self.ranges:
            return True
        if narrow.fixed != self.found.fixed:
            return False
        told = (why for each, why in self.reasons.items() if not each.keeps_ranges)
        folded = any(COMPUTED in why or NO_ROWS in why for why in told)
        if self.ranges and folded and not form.keeps_ranges:
            return True
        plain = self.reasons.get(replace(form, odd=False), "")
        return form.odd and DIFFERENT_STEPS not in plain


def ways(
    trial: Trial, found: Probe, example: Sizes, fewer: bool = True
) -> Iterator[tuple[Probe, Form]]:
    """All sizes in each form; no short signals; sizes alone that strides divide; then, where
    ``fewer`` may be open, these in the first form."""
    if not found.dims:
        return
    ranges = (False, True)
    yield from ((found, Form(way)) for way in ranges)
    strides = bool(found.strides())
    joined = (False, True) if trial.joins else (False,)
    for apart, odd, way in itertools.product(joined, (False, True), ranges):
        if (apart or odd) and (strides or not odd):
            yield found, Form(way, odd, apart)
    yield from ((longer, Form(way)) for longer in _longer(found, example, trial) for way in ranges)
    for whole in _in_whole_steps(trial, found, example):
        for apart, way in itertools.product(joined, ranges):
            yield whole, Form(way, joins_apart=apart)
    for narrow in itertools.islice(narrower(found, example), 1, None if fewer else 1):
        yield from ((narrow, Form(way)) for way in ranges)


def _in_whole_steps(trial: Trial, found: Probe, example: Sizes) -> Iterator[Probe]:
    with contextlib.suppress(ModelError):
        whole = in_whole_steps(trial, found, example)
        if whole is not None:
            yield whole


def narrower(found: Probe, example: Sizes) -> Iterator[Probe]:
    """All open sizes; then none below the example's; then some dimensions as in the example.

    Small sizes run in ONNX Runtime where a window is larger than what it slides over, which
    the importer refuses. A dimension that is kept is first one with a range of its own, or
    with large sizes alone: a network for windows of one length, or lines of one height.
    """
    if not found.dims:
        return
    yield found
    above = tuple(replace(d, low=max(d.low, example[d.name])) for d in found.dims)
    bounded = [d for d in found.dims if d.high < LARGEST]
    if bounded and above != found.dims:
        yield replace(
            found,
            dims=tuple(b if d in bounded else d for d, b in zip(found.dims, above, strict=True)),
        )
    ordered = sorted(found.dims, key=_first_kept)
    if len(ordered) > 1:
        yield from (found.without([d.name], example) for d in ordered)
    if len(ordered) > 2:
        yield from (
            found.without([d.name for d in ordered if d != open_], example)
            for open_ in reversed(ordered)
        )


def _longer(found: Probe, example: Sizes, trial: Trial) -> Iterator[Probe]:
    """Without the shortest signals, which may be padded to what a longer one is: none below a
    quarter of what is at hand."""
    dims = tuple(
        replace(d, low=-(-example[d.name] // (_PART * d.step)) * d.step)
        if d.name in trial.signals and _PART * d.low <= example[d.name] >= _LONG
        else d
        for d in found.dims
    )
    if dims != found.dims:
        with contextlib.suppress(ModelError):
            yield sampled(trial, replace(found, dims=dims), example)


def narrowed(found: Probe, narrow: Probe, why: str) -> Iterator[str]:
    """What a user should know where not all sizes are taken that run, and the way out."""
    for name, n in found.fixed.items():
        yield f"{name} is declared open, but only {n} was found to run."
    for name in sorted(narrow.fixed.keys() - found.fixed.keys()):
        yield f"{name} stays {narrow.fixed[name]}: else {why} {_OUT}"
    steps = {d.name: d.step for d in found.dims}
    for dim in narrow.dims:
        if dim.step != steps[dim.name]:
            yield f"{dim} takes multiples of {dim.step} alone: else {why} {_OUT}"


def _first_kept(dim: Dim) -> tuple[bool, bool, int]:
    return dim.high == LARGEST, dim.low < _FAR, -dim.low
