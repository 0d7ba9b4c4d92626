"""The convolution template: register tiles of output channels times pixels of a row.

Blocks of ``x1`` output rows are the parallel loop, of an image of one row blocks of ``x1`` pixels.
Each first stages the rows
of input that it reads (:mod:`nnjit_studio.compiler.schedule.staging`), then
walks tiles of y0 channels and x0 pixels; for order ``nm`` channels inside
pixels, for ``mn`` pixels inside channels. The reduction runs over input
channels and kernel rows, ``r0`` kernel rows unrolled, every row's taps
unrolled always. A remainder of pixels or channels is covered by a whole tile
that overlaps the one before: equal values are stored twice. A tile that covers
a row of pixels may end with a part of a vector instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
from nnjit_studio.compiler.ir.rewrite import int32, plus, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Expr, Program, Select, Var
from nnjit_studio.compiler.recognize.convolution import BATCH, CHANNEL, GROUP, ROW, Conv2d
from nnjit_studio.compiler.schedule.depthwise import (
    GUESSED_REGISTERS,
    guess_depthwise,
    schedule_depthwise,
)
from nnjit_studio.compiler.schedule.epilogue import COLUMN as TILE_COLUMN
from nnjit_studio.compiler.schedule.epilogue import ROW as TILE_CHANNEL
from nnjit_studio.compiler.schedule.epilogue import Epilogue, acc, plan_epilogue
from nnjit_studio.compiler.schedule.matmul import MAX_TILE_OPERATIONS, check_tile
from nnjit_studio.compiler.schedule.staging import Staging
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
from nnjit_studio.space.wasm.conv2d import columns_of_block

_PIXELS_COST = 3  # of a vector of pixels, which lie at any address, where a multiply-add costs 1
_GUESSED_BLOCKS = 4  # of rows: work for some threads
_GUESSED_ROW = 100  # SIMD operations of one kernel row of taps, at most, where all are unrolled

FIRST_COLUMN, END_COLUMN = "$firstcolumn", "$endcolumn"
FIRST_ROW, END_ROW, INPUT, KERNEL_ROW = "$firstrow", "$endrow", "$c", "$ky"


@dataclass(frozen=True)
class _Plan:
    conv: Conv2d
    staging: Staging
    epilogue: Epilogue
    channels: int  # of a tile
    widths: tuple[int, ...]  # pixels of each vector of a tile
    unroll_channels: int
    unroll_rows: int


def schedule_conv2d(program: Program, conv: Conv2d, candidate: Candidate) -> Scheduled:
    """The loops of one candidate.

    Raises
    ------
    CompileError
        When the candidate does not fit this convolution or is too large.
    """
    if conv.depthwise:
        return schedule_depthwise(program, conv, candidate)
    plan = _plan(program, conv, candidate)
    if is_one_row(conv) and candidate.x1 > 1:
        return _blocks_of_columns(plan, candidate)
    rows = min(candidate.x1, conv.out_height)
    blocks = -(-conv.out_height // rows)
    stride, reach = conv.stride[0], (conv.kernel[0] - 1) * conv.dilation[0] + 1
    last = plus(times(plus(Var(END_ROW), -1), stride), reach)
    body = plan.staging.fill(times(Var(FIRST_ROW), stride), last)

    def columns(inner: list[Statement]) -> list[Statement]:
        inner = over_tiles(
            "$xtile", TILE_COLUMN, conv.out_width, sum(plan.widths), inner, conv.open
        )
        return [For(ROW, Var(FIRST_ROW), Var(END_ROW), 1, inner)]

    body += _compute(plan, candidate.order, columns)
    end = Binary("min", plus(Var(FIRST_ROW), rows), int32(conv.out_height))
    body = [Let(END_ROW, end, body)]
    return per_image(conv, blocks, lambda block: [Let(FIRST_ROW, times(block, rows), body)])


def is_one_row(conv: Conv2d) -> bool:
    """Whether images, and what is read of them, have a single row: blocks are columns of it."""
    return conv.out_height == conv.height == conv.reach[0] == 1 and not conv.depthwise


def _blocks_of_columns(plan: _Plan, candidate: Candidate) -> Scheduled:
    """Blocks of ``x1`` pixels, of which the last takes what is left over, too."""
    conv, size = plan.conv, sum(plan.widths)
    if candidate.x1 < size:
        raise CompileError(
            f"Blocks of x1={candidate.x1} pixels are narrower than tiles of {size}.",
            "Use more, or 1 for the whole row.",
        )
    blocks = max(1, conv.out_width // candidate.x1)
    width = Var(END_COLUMN) - Var(FIRST_COLUMN)
    at = Var(FIRST_COLUMN) + Binary("min", times(Var("$xtile"), size), plus(width, -size))
    last = plus(width, size - 1) // size

    def columns(inner: list[Statement]) -> list[Statement]:
        tiles = For("$xtile", int32(0), last, 1, [Let(TILE_COLUMN, at, inner)])
        return [Let(ROW, int32(0), [tiles])]

    body = plan.staging.fill_columns(Var(FIRST_COLUMN), Var(END_COLUMN))
    body += _compute(plan, candidate.order, columns)

    def of_block(block: Expr) -> list[Statement]:
        is_last = Binary("eq", block, int32(blocks - 1))
        end = Select(is_last, int32(conv.out_width), times(plus(block, 1), candidate.x1))
        first = times(block, candidate.x1)
        return [Let(FIRST_COLUMN, first, [Let(END_COLUMN, end, body)])]

    return per_image(conv, blocks, of_block)


def guess_conv2d(conv: Conv2d) -> Candidate:
    """The cheapest tile, with what the last tiles of a row and of the channels do once more."""
    if conv.depthwise:
        return guess_depthwise(conv)
    channels, vectors = min(_tiles(conv), key=lambda tile: _cost(conv, *tile), default=(1, 1))
    row = conv.kernel[1] * _step_operations(channels, vectors)
    whole = row <= _GUESSED_ROW and conv.kernel[0] * row <= MAX_TILE_OPERATIONS
    unroll = conv.kernel[0] if whole else 1
    block = -(-conv.out_height // _GUESSED_BLOCKS)
    if is_one_row(conv):
        block = columns_of_block(conv.out_width)
    return Candidate(vectors * LANES, channels, unroll, block, channels, conv.taps, "mn", False)


def _tiles(conv: Conv2d) -> Iterator[tuple[int, int]]:
    """Channels and vectors of pixels that stay in registers, with a short enough row of taps."""
    for vectors in range(1, -(-conv.out_width // LANES) + 1):
        for channels in range(1, conv.out_channels + 1):
            if (channels + 1) * vectors + 1 > GUESSED_REGISTERS:
                break
            if conv.kernel[1] * _step_operations(channels, vectors) <= MAX_TILE_OPERATIONS:
                yield channels, vectors


def _step_operations(channels: int, vectors: int) -> int:
    """Of a tap: loads of pixels, splats of weights, and multiply-adds."""
    return vectors + channels * (1 + vectors)


def _cost(conv: Conv2d, channels: int, vectors: int) -> tuple[int, int]:
    """Of a row of output and a tap, in operations; then the larger of equals. Fitted on x64."""
    tiles = -(-conv.out_channels // channels) * -(-conv.out_width // (vectors * LANES))
    step = _step_operations(channels, vectors) + (_PIXELS_COST - 1) * vectors
    return tiles * step, -channels * vectors


def _plan(program: Program, conv: Conv2d, candidate: Candidate) -> _Plan:
    check_pixels(candidate, conv.out_width, conv.out_channels, "output channels")
    kernel_rows = conv.kernel[0]
    if candidate.r0 % kernel_rows and kernel_rows % candidate.r0:
        raise CompileError(
            f"r0={candidate.r0} neither divides nor is a multiple of the kernel's "
            f"{kernel_rows} rows.",
            f"Use 1, {kernel_rows} or {2 * kernel_rows}.",
        )
    widths = pixels(candidate.x0, conv.out_width)
    step = len(widths) + candidate.y0 * (1 + len(widths))
    check_tile(candidate, candidate.r0 * conv.kernel[1] * step)
    return _Plan(
        conv,
        Staging(conv, False, candidate.x0 == SINGLE),
        plan_epilogue(program, conv.contraction(CHANNEL)),
        candidate.y0,
        widths,
        min(conv.channels, max(1, candidate.r0 // kernel_rows)),
        min(candidate.r0, kernel_rows),
    )


def _compute(
    plan: _Plan, order: str, columns: Callable[[list[Statement]], list[Statement]]
) -> list[Statement]:
    conv = plan.conv
    body = _tile(plan)

    def channels(inner: list[Statement]) -> list[Statement]:
        return over_tiles("$otile", TILE_CHANNEL, conv.out_channels, plan.channels, inner)

    body = columns(channels(body)) if order == "nm" else channels(columns(body))
    return [For(GROUP, int32(0), int32(conv.groups), 1, body)]


def _tile(plan: _Plan) -> list[Statement]:
    return [
        *start(plan.channels, len(plan.widths)),
        *_reduce(plan),
        *plan.epilogue.finish(plan.channels, plan.widths),
    ]


def _reduce(plan: _Plan) -> list[Statement]:
    conv = plan.conv
    whole = conv.channels // plan.unroll_channels * plan.unroll_channels
    body: list[Statement] = [
        For(INPUT, int32(0), int32(whole), plan.unroll_channels, _rows(plan, plan.unroll_channels))
    ]
    if whole < conv.channels:
        body.append(For(INPUT, int32(whole), int32(conv.channels), 1, _rows(plan, 1)))
    return body


def _rows(plan: _Plan, channels: int) -> list[Statement]:
    steps = [
        step
        for channel in range(channels)
        for row in range(plan.unroll_rows)
        for tap in range(plan.conv.kernel[1])
        for step in _step(plan, channel, row, tap)
    ]
    return [For(KERNEL_ROW, int32(0), int32(plan.conv.kernel[0]), plan.unroll_rows, steps)]


def _step(plan: _Plan, channel: int, row: int, tap: int) -> list[Statement]:
    """One tap: a vector of each group of pixels, a splat of each output channel."""
    conv, staging = plan.conv, plan.staging
    down, right = conv.kernel
    stage_terms = (
        *(((BATCH, staging.image_step),) if conv.batch > 1 else ()),
        *(((GROUP, conv.channels * staging.channel_step),) if conv.groups > 1 else ()),
        (ROW, conv.stride[0] * staging.row_step),
        (TILE_COLUMN, 1),
        (INPUT, staging.channel_step),
        (KERNEL_ROW, conv.dilation[0] * staging.row_step),
    )
    weight_terms = (
        *(((GROUP, conv.out_channels * conv.taps),) if conv.groups > 1 else ()),
        (TILE_CHANNEL, conv.taps),
        (INPUT, math.prod(conv.kernel)),
        (KERNEL_ROW, right),
    )
    at = channel * staging.channel_step + row * conv.dilation[0] * staging.row_step
    body: list[Statement] = []
    for j, width in enumerate(plan.widths):
        index = Affine(stage_terms, at + staging.column(tap) + LANES * j)
        body.append(AssignVector(f"b{j}", Element(conv.stage, index, width)))
    for i in range(plan.channels):
        offset = i * conv.taps + (channel * down + row) * right + tap
        body.append(AssignVector("a", Element(conv.weights, Affine(weight_terms, offset), 0)))
        for j in range(len(plan.widths)):
            body.append(AssignVector(acc(i, j), MultiplyAdd("a", f"b{j}", acc(i, j))))
    return body
