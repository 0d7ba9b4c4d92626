"""Convolutions over maps that may be smaller than a tile: further variants, of single pixels and
rows, which are right at any size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from nnjit_studio.compiler.any_size.formulas.fit import Numbers
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import loops_of
from nnjit_studio.compiler.recognize.convolution import Conv2d
from nnjit_studio.compiler.schedule.conv2d import guess_conv2d, is_one_row
from nnjit_studio.compiler.schedule.tiles import SINGLE
from nnjit_studio.compiler.templates import match
from nnjit_studio.errors import CompileError
from nnjit_studio.model.size import Size, least
from nnjit_studio.records.candidate import Candidate

_OPEN_MAP = {"out_height": 4, "out_width": 8}
"""The map that a tile is guessed for where its extents are open: most maps are no smaller."""


def tiled(program: Program) -> Conv2d | None:
    """The convolution of a program; None where it has no kernel of that template."""
    found = match(program)
    form = found.template.wasm if found else None
    if not found or not form or not isinstance(found.subject, Conv2d):
        return None
    try:
        loops_of(program, form.guess(found.subject))
    except CompileError:
        return None
    return found.subject


def open_extents(convolutions: Sequence[Conv2d]) -> dict[str, int]:
    """Of one convolution at several sizes: the extents of its map that its tile is guessed for in
    place of its own, so that it is the same at each."""
    return {
        name: extent
        for name, extent in _OPEN_MAP.items()
        if len({getattr(convolution, name) for convolution in convolutions}) > 1
    }


def tile_of(
    convolution: Conv2d,
    extents: Mapping[str, int],
    small: Collection[str] = (),
    tuned: Candidate | None = None,
) -> Candidate:
    """The tile of a convolution with open extents.

    Parameters
    ----------
    small
        Settings of which the map is too small: a tile of single pixels is one of single rows too.
    tuned
        What won at one size, in place of the first guess. Blocks follow the size all the same.

    Raises
    ------
    ModelError
        When its tile ends with a part of a vector, as the width it was tuned at did.
    """
    guess = guess_conv2d(convolution)
    tile = guess_conv2d(replace(convolution, **extents))  # type: ignore[arg-type]
    if tuned is not None:
        if "out_width" in extents and tuned.x0 % LANES:
            raise refused(f"a tile of {tuned.x0} columns fits the width alone that it was tuned at")
        guess = replace(guess, order=tuned.order)
        tile = replace(tile, x0=tuned.x0, y0=tuned.y0, y1=tuned.y1, r0=tuned.r0)
    # Blocks of a single row are cut by its width, which is another at each size.
    block = tile.x1 if is_one_row(convolution) else guess.x1
    tile = replace(guess, x0=tile.x0, y0=tile.y0, y1=tile.y1, r0=tile.r0, x1=block)
    if "x0" in small:
        tile = replace(tile, x0=SINGLE)
    return replace(tile, y0=1, y1=1) if small and convolution.depthwise else tile


def tile_selectors(
    name: str, convolutions: Sequence[Conv2d], tile: Candidate, numbers: Numbers
) -> dict[str, tuple[Size, int]]:
    """By a setting of the tile, what is 0 where the map is smaller than that, or rows of it
    that are copied to the stage are shorter than a vector, and 1 elsewhere.

    Parameters
    ----------
    convolutions
        One at several sizes.

    Raises
    ------
    ModelError
        When the size of the map has no formula.
    """
    made = {}
    columns = tile.x0 if tile.x0 == SINGLE else max(tile.x0, LANES + most_lost(convolutions))
    wanted = {"x0": ([c.out_width for c in convolutions], columns)}
    if convolutions[0].depthwise:
        wanted["y0"] = ([c.out_height for c in convolutions], tile.y0)
    for setting, (vector, extent) in wanted.items():
        if len(set(vector)) > 1:
            formula = numbers.formula(tuple(vector))
            if formula is None:
                raise refused(f"the size of the map of {name} has no formula")
            fits = least(formula // extent, 1)
            if fits.constant is None:
                made[setting] = (fits, 2)
    return made


def most_lost(convolutions: Sequence[Conv2d]) -> int:
    """How many fewer columns of a map than it makes a convolution may copy to one of the phases of
    its stage, at any width: the others there are padding.

    Parameters
    ----------
    convolutions
        One at several sizes, of which none may have the widest padding.
    """
    first, stride = convolutions[0], convolutions[0].stride[1]
    left = max(c.pad[1] for c in convolutions)
    # Behind the map, where a stride leaves nothing over.
    right = max(0, min(c.reach[1] - c.pad[1] - c.width for c in convolutions) + stride - 1)
    read = (first.kernel[1] - 1) * first.dilation[1] + 1 - right
    before = (max(0, -(-(left - phase) // stride)) for phase in range(stride))
    ends = (-(-(read - phase) // stride) for phase in range(stride))
    return max(0, *(1 + low - end for low, end in zip(before, ends, strict=True)))
