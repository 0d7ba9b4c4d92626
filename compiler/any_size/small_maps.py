"""Convolutions over maps that may be smaller than a tile: further variants, of single pixels and
rows, which are right at any size."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nnjit_studio.compiler.any_size.fit import Numbers
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import lowered
from nnjit_studio.compiler.recognize.convolution import Conv2d
from nnjit_studio.compiler.schedule.tiles import SINGLE
from nnjit_studio.compiler.templates import match
from nnjit_studio.errors import CompileError
from nnjit_studio.model.size import Size, least
from nnjit_studio.records import TIERS
from nnjit_studio.records.candidate import Candidate


def guessed(program: Program) -> tuple[Conv2d, Candidate] | None:
    """The convolution of a program and its tile; None where it has no kernel of that template."""
    found = match(program)
    form = found.template.wasm if found else None
    if not found or not form or not isinstance(found.subject, Conv2d):
        return None
    guess = form.guess(found.subject)
    try:
        lowered(program, TIERS[0], candidate=guess)
    except CompileError:
        return None
    return (found.subject, guess) if guess else None


def tile_selectors(
    name: str, convolutions: Sequence[Conv2d], tile: Candidate, numbers: Numbers
) -> dict[str, tuple[Size, int]]:
    """By a setting of the tile, what is 0 where the map is smaller than that and 1 elsewhere.

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
    wanted = {"x0": [c.out_width for c in convolutions]}
    if convolutions[0].depthwise:
        wanted["y0"] = [c.out_height for c in convolutions]
    for setting, vector in wanted.items():
        if len(set(vector)) > 1:
            formula = numbers.formula(tuple(vector))
            if formula is None:
                raise refused(f"the size of the map of {name} has no formula")
            fits = least(formula // getattr(tile, setting), 1)
            if fits.constant is None:
                made[setting] = (fits, 2)
    return made


def small_tile(program: Program, settings: Collection[str]) -> Candidate | None:
    """The tile of a program with settings of which the map is too small; None where there are
    none: a tile of single pixels is one of single rows too."""
    found = guessed(program) if settings else None
    if found is None:
        return None
    convolution, tile = found
    if "x0" in settings:
        tile = replace(tile, x0=SINGLE)
    return replace(tile, y0=1, y1=1) if convolution.depthwise else tile
