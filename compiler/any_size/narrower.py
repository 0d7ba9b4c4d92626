"""Ways to leave fewer sizes open, where a model is not one program for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.compiler.any_size.probe import Probe
from nnjit_studio.model.size import LARGEST, Dim

_FAR = 64


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


def _first_kept(dim: Dim) -> tuple[bool, bool, int]:
    return dim.high == LARGEST, dim.low < _FAR, -dim.low
