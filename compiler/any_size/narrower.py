"""Ways to leave fewer sizes open, where a model is not one program for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.compiler.any_size.probe import Probe, sampled
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.errors import ModelError
from nnjit_studio.model.size import LARGEST, Dim

_FAR = 64
_LONG, _PART = 512, 4
"""Samples of a long signal, and the part of one that is none of the shortest."""


def narrower(found: Probe, example: Sizes, trial: Trial | None = None) -> Iterator[Probe]:
    """All open sizes; then none below the example's; then no short signals; then some dimensions
    as in the example.

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
    if trial is not None:
        yield from _longer(found, example, trial)
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


def _first_kept(dim: Dim) -> tuple[bool, bool, int]:
    return dim.high == LARGEST, dim.low < _FAR, -dim.low
