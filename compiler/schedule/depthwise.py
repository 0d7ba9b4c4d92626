"""The depthwise template: one channel after another, tiles of output rows times pixels.

Channels are the parallel loop. Each stages its padded plane, which then stays
in L1, and walks tiles of y0 rows and x0 pixels: every vector of input is
loaded once a tile and used by all output rows that it belongs to. With ``r0``
equal to the kernel's rows the taps stay in locals for the whole channel, with
1 they are splat where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    AssignVector,
    Element,
    For,
    Let,
    MultiplyAdd,
    Scheduled,
    Statement,
)
from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import Program, Var
from nnjit_studio.compiler.recognize.convolution import BATCH, CHANNEL, GROUP, ROW, Conv2d
from nnjit_studio.compiler.schedule.epilogue import COLUMN as TILE_COLUMN
from nnjit_studio.compiler.schedule.epilogue import ROW as TILE_ROW
from nnjit_studio.compiler.schedule.epilogue import Epilogue, acc, plan_epilogue
from nnjit_studio.compiler.schedule.matmul import MAX_TILE_OPERATIONS, check_tile
from nnjit_studio.compiler.schedule.staging import STAGED_CHANNEL, Staging
from nnjit_studio.compiler.schedule.tiles import (
    SINGLE,
    check_pixels,
    over_tiles,
    per_image,
    pixels,
    start,
)
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

GUESSED_REGISTERS = 15
"""Of the 16 that x64 has: one is for what the engine needs."""


@dataclass(frozen=True)
class _Plan:
    conv: Conv2d
    staging: Staging
    epilogue: Epilogue
    rows: int  # of a tile
    widths: tuple[int, ...]  # pixels of each vector of a tile
    held: bool  # taps in locals

    @property
    def uses(self) -> list[tuple[int, int, list[tuple[int, int]]]]:
        """Input row of the tile and tap column, with the (output row, tap row) that use them."""
        return _uses(self.conv, self.rows)


def _uses(conv: Conv2d, rows: int) -> list[tuple[int, int, list[tuple[int, int]]]]:
    down, stride, dilation = conv.kernel[0], conv.stride[0], conv.dilation[0]
    users: dict[int, list[tuple[int, int]]] = {}
    for row in range(rows):
        for tap in range(down):
            users.setdefault(row * stride + tap * dilation, []).append((row, tap))
    return [(r, c, users[r]) for r in sorted(users) for c in range(conv.kernel[1])]


def schedule_depthwise(program: Program, conv: Conv2d, candidate: Candidate) -> Scheduled:
    """The loops of one candidate.

    Raises
    ------
    CompileError
        When the candidate does not fit this convolution or is too large.
    """
    plan = _plan(program, conv, candidate)

    def rows(inner: list[Statement]) -> list[Statement]:
        return over_tiles("$ytile", TILE_ROW, conv.out_height, plan.rows, inner, conv.open)

    def columns(inner: list[Statement]) -> list[Statement]:
        return over_tiles("$xtile", TILE_COLUMN, conv.out_width, sum(plan.widths), inner, conv.open)

    tile = _tile(plan)
    tiles = columns(rows(tile)) if candidate.order == "nm" else rows(columns(tile))
    body: list[Statement] = [
        For(CHANNEL, int32(0), int32(conv.out_channels), 1, [*_taps(plan), *tiles])
    ]
    body = [*plan.staging.fill(int32(0), int32(conv.reach[0])), *body]
    body = [Let(STAGED_CHANNEL, Var(GROUP), body)]
    return per_image(conv, conv.groups, lambda group: [Let(GROUP, group, body)])


def guess_depthwise(conv: Conv2d) -> Candidate:
    """The cheapest tile that holds its taps, with what the last tiles do once more."""
    tiles = [
        (rows, vectors)
        for vectors in range(1, -(-conv.out_width // LANES) + 1)
        for rows in range(1, conv.out_height + 1)
        if _registers(rows, vectors) <= GUESSED_REGISTERS
        and sum(_operations(conv, rows, vectors)) <= MAX_TILE_OPERATIONS
    ]
    rows, vectors = min(tiles, key=lambda tile: _cost(conv, *tile), default=(1, 1))
    unroll, height = conv.kernel[0], conv.out_height
    return Candidate(vectors * LANES, rows, unroll, height, rows, conv.taps, "mn", False)


def _registers(rows: int, vectors: int) -> int:
    """Of a tile without its taps: sums, loaded pixels, and one for a tap."""
    return (rows + 1) * vectors + 1


def _operations(conv: Conv2d, rows: int, vectors: int) -> tuple[int, int]:
    """Of a tile: loads of pixels, and multiply-adds."""
    uses = _uses(conv, rows)
    return len(uses) * vectors, sum(len(users) for *_, users in uses) * vectors


def _cost(conv: Conv2d, rows: int, vectors: int) -> float:
    """Of a channel, in operations; taps that find no register are read where they are used."""
    loads, adds = _operations(conv, rows, vectors)
    spilled = max(0, conv.taps - (GUESSED_REGISTERS - _registers(rows, vectors))) / conv.taps
    tiles = -(-conv.out_width // (vectors * LANES)) * -(-conv.out_height // rows)
    return tiles * (loads + adds + spilled * adds / vectors)


def _plan(program: Program, conv: Conv2d, candidate: Candidate) -> _Plan:
    check_pixels(candidate, conv.out_width, conv.out_height, "output rows")
    if candidate.r0 not in (1, conv.kernel[0]):
        raise CompileError(
            f"r0={candidate.r0} is neither 1 nor the kernel's {conv.kernel[0]} rows.",
            "Use one of them.",
        )
    plan = _Plan(
        conv,
        Staging(conv, True, candidate.x0 == SINGLE),
        plan_epilogue(program, conv.contraction(ROW)),
        candidate.y0,
        pixels(candidate.x0, conv.out_width),
        candidate.r0 == conv.kernel[0],
    )
    loads, adds = _operations(conv, plan.rows, len(plan.widths))
    check_tile(candidate, loads + adds + (0 if plan.held else adds // len(plan.widths)))
    return plan


def _weight(plan: _Plan, row: int, column: int) -> Element:
    conv = plan.conv
    terms = ((GROUP, conv.out_channels * conv.taps), (CHANNEL, conv.taps))
    return Element(conv.weights, Affine(terms, row * conv.kernel[1] + column), 0)


def _taps(plan: _Plan) -> list[Statement]:
    if not plan.held:
        return []
    rows, columns = plan.conv.kernel
    return [
        AssignVector(f"w{r}_{c}", _weight(plan, r, c)) for r in range(rows) for c in range(columns)
    ]


def _tile(plan: _Plan) -> list[Statement]:
    conv, staging = plan.conv, plan.staging
    terms = (
        *(((BATCH, staging.image_step),) if conv.batch > 1 else ()),
        (GROUP, staging.channel_step),
        (TILE_ROW, conv.stride[0] * staging.row_step),
        (TILE_COLUMN, 1),
    )
    body = start(plan.rows, len(plan.widths))
    for input_row, tap, users in plan.uses:
        for j, width in enumerate(plan.widths):
            at = input_row * staging.row_step + staging.column(tap) + LANES * j
            body.append(AssignVector(f"b{j}", Element(conv.stage, Affine(terms, at), width)))
        for row, tap_row in users:
            weight = f"w{tap_row}_{tap}" if plan.held else "w"
            if not plan.held:
                body.append(AssignVector(weight, _weight(plan, tap_row, tap)))
            for j in range(len(plan.widths)):
                body.append(AssignVector(acc(row, j), MultiplyAdd(weight, f"b{j}", acc(row, j))))
    return [*body, *plan.epilogue.finish(plan.rows, plan.widths)]
