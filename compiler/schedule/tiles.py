"""Parts of the convolution templates: checks of a tile and its start."""

from __future__ import annotations

from collections.abc import Callable

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.loops import BEGIN, END, AssignVector, For, Let, Scheduled, Statement
from nnjit_studio.compiler.ir.rewrite import int32, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Expr, Var
from nnjit_studio.compiler.recognize.convolution import BATCH, Conv2d
from nnjit_studio.compiler.schedule.epilogue import acc
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

SINGLE = 1
"""The width of a tile that fits into rows of any length, where a size is known at a run alone."""


def check_pixels(candidate: Candidate, columns: int, rows: int, what: str) -> None:
    """Refuse a tile that is no tile of ``rows`` x ``columns`` outputs.

    Raises
    ------
    CompileError
        With the setting that does not fit.
    """
    widest = -(-columns // LANES) * LANES
    whole = candidate.x0 % LANES == 0 and LANES <= candidate.x0 <= widest
    if not whole and candidate.x0 != SINGLE:
        raise CompileError(
            f"x0={candidate.x0} does not fit rows of {columns} pixels.",
            f"Use a multiple of {LANES} up to {widest}.",
        )
    if candidate.y0 > rows:
        raise CompileError(f"y0={candidate.y0} exceeds the {rows} {what}.", "Use fewer.")
    if candidate.pack:
        raise CompileError("A convolution's weights are not packed.", "Choose pack=0.")


def pixels(columns: int, width: int) -> tuple[int, ...]:
    """Pixels in each vector of a tile; where it covers a row the last may be a short one."""
    columns = min(columns, width)
    rest = (columns % LANES,) if columns % LANES else ()
    return (LANES,) * (columns // LANES) + rest


def over_tiles(
    tile: str, first: str, extent: int, size: int, body: list[Statement], any_extent: bool = False
) -> list[Statement]:
    """Loop over tiles of ``size`` that cover ``extent``; the last may overlap the one before.

    With ``any_extent`` the loops are those of an extent that ``size`` does not divide.
    """
    count = -(-extent // size)
    at = times(Var(tile), size)
    if any_extent or extent % size:
        at = Binary("min", at, int32(extent - size))
    return [For(tile, int32(0), int32(count), 1, [Let(first, at, body)])]


def start(rows: int, vectors: int) -> list[Statement]:
    return [AssignVector(acc(i, j), None) for i in range(rows) for j in range(vectors)]


def per_image(conv: Conv2d, parts: int, body: Callable[[Expr], list[Statement]]) -> Scheduled:
    """The parallel loop: ``parts`` of each image, the body of one from its number."""
    number = Var("$p")
    if conv.batch == 1:
        inner = body(number)
    else:
        inner = body(number % parts)
        inner = [Let(BATCH, number // parts, inner)]
    return Scheduled([For("$p", Var(BEGIN), Var(END), 1, inner)], conv.batch * parts)
