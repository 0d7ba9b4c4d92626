"""The template of depthwise convolutions of bytes: eight channels, a tile of pixels at a time.

Taps of two rows are one dot product: bytes of both rows are widened to 16 bits and interleaved,
as their weights are once for each eight channels of a block of output rows. A column of the image
is loaded once for all pixels of the tile that it belongs to. Products are below 2^16, their sums
exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    BEGIN,
    END,
    Apply,
    AssignVector,
    Dot,
    Element,
    For,
    Let,
    Put,
    Scheduled,
    Statement,
    Widened,
)
from nnjit_studio.compiler.ir.rewrite import int32, plus, substitute_store, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Expr, Program, Var
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR
from nnjit_studio.compiler.recognize.depthwise_bytes import CHANNELS_AT_ONCE, DepthwiseBytes
from nnjit_studio.compiler.schedule.epilogue import acc
from nnjit_studio.compiler.schedule.matmul import check_tile
from nnjit_studio.compiler.schedule.tiles import over_tiles
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

_IMAGE, _ROW, _COLUMN, _CHANNEL = "$image", "$row", "$column", "$channel"
_HALVES = ("low", "high")
_GUESSED_PIXELS, _GUESSED_BLOCK = 4, 4


@dataclass(frozen=True)
class _Plan:
    conv: DepthwiseBytes
    pixels: int

    @property
    def pairs(self) -> list[tuple[int, int | None]]:
        """Rows of taps, two by two."""
        down = self.conv.kernel[0]
        return [(row, row + 1 if row + 1 < down else None) for row in range(0, down, 2)]

    def columns(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Bytes to a column of the image, with the (pixel, tap) that use it."""
        users: dict[int, list[tuple[int, int]]] = {}
        for pixel in range(self.pixels):
            for tap in range(self.conv.kernel[1]):
                at = pixel * self.conv.right + tap * self.conv.tap_right
                users.setdefault(at, []).append((pixel, tap))
        return ((at, users[at]) for at in sorted(users))


def schedule_depthwise_bytes(
    program: Program, conv: DepthwiseBytes, candidate: Candidate
) -> Scheduled:
    """The loops of one candidate.

    Raises
    ------
    CompileError
        When the candidate does not fit this convolution or is too large.
    """
    plan = _Plan(conv, candidate.y0)
    fits = candidate.y0 <= conv.columns and candidate.x1 <= conv.rows and not candidate.pack
    if candidate.x0 != CHANNELS_AT_ONCE or not fits:
        raise CompileError(
            f"{candidate} does not fit rows of {conv.columns} pixels.",
            f"Use x0={CHANNELS_AT_ONCE}, pack=0, and y0 and x1 inside the image.",
        )
    dots = candidate.y0 * conv.kernel[1] * len(plan.pairs) * len(_HALVES)
    check_tile(candidate, 2 * dots)
    tiles = over_tiles("$tile", _COLUMN, conv.columns, candidate.y0, _tile(plan))
    end = Binary("min", plus(Var("$first"), candidate.x1), int32(conv.rows))
    rows: list[Statement] = [For(_ROW, Var("$first"), end, 1, tiles)]
    channels: list[Statement] = [
        For(_CHANNEL, int32(0), int32(conv.channels), CHANNELS_AT_ONCE, [*_weights(plan), *rows])
    ]
    blocks = -(-conv.rows // candidate.x1)
    number = Var("$p")
    at: Expr = number if conv.batch == 1 else number % blocks
    inner: list[Statement] = [Let("$first", times(at, candidate.x1), channels)]
    if conv.batch > 1:
        inner = [Let(_IMAGE, number // blocks, inner)]
    return Scheduled([For("$p", Var(BEGIN), Var(END), 1, inner)], conv.batch * blocks)


def guess_depthwise_bytes(conv: DepthwiseBytes) -> Candidate:
    """One good tile."""
    pixels, block = min(_GUESSED_PIXELS, conv.columns), min(_GUESSED_BLOCK, conv.rows)
    return Candidate(CHANNELS_AT_ONCE, pixels, 1, block, pixels, conv.taps, "mn", False)


def _interleaved(name: str, first: str, second: str) -> list[Statement]:
    return [
        AssignVector(f"{name}{half}", Apply(f"i16x8.interleave_{half}", (first, second)), "i32")
        for half in _HALVES
    ]


def _weights(plan: _Plan) -> list[Statement]:
    """Taps of eight channels in 16 bits, those of two rows interleaved."""
    across, channels = plan.conv.kernel[1], plan.conv.channels
    body: list[Statement] = [AssignVector("none", None, "i32")]

    def load(name: str, row: int | None, column: int) -> str:
        if row is None:
            return "none"
        for i, half in enumerate(_HALVES):
            at = Affine(((_CHANNEL, 1),), (row * across + column) * channels + LANES * i)
            body.append(AssignVector(half, Element(plan.conv.weights, at, LANES), "i32"))
        body.append(AssignVector(name, Apply("i16x8.narrow_i32x4_s", _HALVES), "i32"))
        return name

    for i, (first, second) in enumerate(plan.pairs):
        for column in range(across):
            both = load("first", first, column), load("second", second, column)
            body += _interleaved(f"w{i}_{column}", *both)
    return body


def _tile(plan: _Plan) -> list[Statement]:
    conv = plan.conv
    body: list[Statement] = [
        AssignVector(acc(pixel, j), None, "i32")
        for pixel in range(plan.pixels)
        for j in range(len(_HALVES))
    ]
    steps = ((_IMAGE, conv.image), (_ROW, conv.down), (_COLUMN, conv.right), (_CHANNEL, 1))
    terms = tuple((v, s) for v, s in steps if s and (v != _IMAGE or conv.batch > 1))

    def load(name: str, row: int | None, at: int) -> str:
        if row is None:
            return "none"
        index = Affine(terms, row * conv.tap_down + at)
        body.append(AssignVector(name, Widened(conv.data, index, False), "i32"))
        return name

    for at, users in plan.columns():
        for i, (first, second) in enumerate(plan.pairs):
            both = load("first", first, at), load("second", second, at)
            body += _interleaved("x", *both)
            for pixel, tap in users:
                for j, half in enumerate(_HALVES):
                    name = acc(pixel, j)
                    dot = Dot(f"x{half}", f"w{i}_{tap}{half}", name)
                    body.append(AssignVector(name, dot, "i32"))
    return [*body, *(_store(conv, pixel) for pixel in range(plan.pixels))]


def _store(conv: DepthwiseBytes, pixel: int) -> Statement:
    """Finished results of one pixel."""
    image, row, column, channel = conv.names
    stores = []
    for j in range(len(_HALVES)):
        point: dict[str, Expr] = {
            image: Var(_IMAGE) if conv.batch > 1 else int32(0),
            row: Var(_ROW),
            column: plus(Var(_COLUMN), pixel),
            channel: plus(Var(_CHANNEL), LANES * j),
            ACCUMULATOR: Var(acc(pixel, j)),
        }
        stores += [substitute_store(s, point) for s in conv.stores]
    return Put(tuple(stores), _CHANNEL)
