"""Parts of the convolution templates: checks of a tile, its start and its end."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.loops import AssignVector, For, Let, Statement
from nnjit_studio.compiler.ir.rewrite import int32, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Var
from nnjit_studio.compiler.schedule.epilogue import Epilogue
from nnjit_studio.compiler.schedule.matmul import MAX_TILE_OPERATIONS
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import ORDERS, Candidate


def acc(row: int, vector: int) -> str:
    """Name of an accumulator."""
    return f"acc{row}_{vector}"


def check_tile(candidate: Candidate, columns: int, rows: int, what: str) -> None:
    """Refuse a tile that is no tile of ``rows`` x ``columns`` outputs.

    Raises
    ------
    CompileError
        With the setting that does not fit.
    """
    widest = -(-columns // LANES) * LANES
    if candidate.x0 % LANES or not LANES <= candidate.x0 <= widest:
        raise CompileError(
            f"x0={candidate.x0} does not fit rows of {columns} pixels.",
            f"Use a multiple of {LANES} up to {widest}.",
        )
    if candidate.y0 > rows:
        raise CompileError(f"y0={candidate.y0} exceeds the {rows} {what}.", "Use fewer.")
    if candidate.order not in ORDERS:
        raise CompileError(f"order={candidate.order} is unknown.", "Use nm or mn.")
    if candidate.pack:
        raise CompileError("A convolution's weights are not packed.", "Choose pack=0.")


def check_operations(candidate: Candidate, operations: int) -> None:
    """Refuse a body that engines compile badly.

    Raises
    ------
    CompileError
        When there are too many SIMD operations.
    """
    if operations > MAX_TILE_OPERATIONS:
        raise CompileError(
            f"The tile {candidate.y0}x{candidate.x0} with r0={candidate.r0} is {operations} "
            "SIMD operations.",
            f"Stay at or below {MAX_TILE_OPERATIONS}.",
        )


def pixels(columns: int, width: int) -> tuple[int, ...]:
    """Pixels in each vector of a tile; where it covers a row the last may be a short one."""
    columns = min(columns, width)
    rest = (columns % LANES,) if columns % LANES else ()
    return (LANES,) * (columns // LANES) + rest


def over_tiles(
    tile: str, first: str, extent: int, size: int, body: list[Statement]
) -> list[Statement]:
    """Loop over tiles of ``size`` that cover ``extent``; the last may overlap the one before."""
    count = -(-extent // size)
    at = times(Var(tile), size)
    if extent % size:
        at = Binary("min", at, int32(extent - size))
    return [For(tile, int32(0), int32(count), 1, [Let(first, at, body)])]


def start(rows: int, vectors: int) -> list[Statement]:
    return [AssignVector(acc(i, j), None) for i in range(rows) for j in range(vectors)]


def finish(epilogue: Epilogue, rows: int, widths: Sequence[int]) -> list[Statement]:
    """Epilogue and stores: on the accumulators, or in a sweep over the stored tile."""
    grid = [(i, j) for i in range(rows) for j in range(len(widths))]
    whole = all(width == LANES for width in widths)
    if whole and not epilogue.plain and epilogue.inline(len(grid)):
        vectors = range(len(widths))
        return [epilogue.store_inline([acc(i, j) for j in vectors], i) for i in range(rows)]
    body = [
        statement
        for i, j in grid
        for statement in epilogue.store_raw(acc(i, j), i, LANES * j, widths[j])
    ]
    return body + epilogue.sweep(rows, sum(widths))
