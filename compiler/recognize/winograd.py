"""Winograd's convolution as three programs: tiles in, a product for each point, tiles out.

A tile of m x m outputs of a 3x3 convolution is ``A^T [(G g G^T) * (B^T d B)] A`` with d the
(m + 2) x (m + 2) inputs that it reads (Lavin and Gray, 2015, "Fast Algorithms for
Convolutional Neural Networks", section 4, where the matrices are from): (m + 2)^2 products
in place of 9 m^2, 2.25 times fewer for m = 2 and 4 times for m = 4. Summed over channels
they are one matmul for each of the (m + 2)^2 points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import linear_expr, loads
from nnjit_studio.compiler.ir.rewrite import replace_loads, substitute
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR
from nnjit_studio.compiler.recognize.convolution import CHANNEL, COLUMN, ROW, Conv2d
from nnjit_studio.compiler.recognize.labels import epilogue_labels
from nnjit_studio.compiler.recognize.winograd_lines import TILES, Lines, into_tiles, out_of_tiles
from nnjit_studio.compiler.recognize.zero_padding import limits_of

INPUT, PRODUCT, OUTPUT = "winograd_input", "winograd_product", "winograd_output"
"""Names of the programs."""


@dataclass(frozen=True)
class Winograd:
    """Sizes of one convolution with tiles of ``m`` x ``m`` outputs; pairs are (vertical,
    horizontal), in elements."""

    m: int
    channels: int
    out_channels: int
    size: tuple[int, int]
    out_size: tuple[int, int]
    pad: tuple[int, int]

    @property
    def side(self) -> int:
        """Inputs that a tile reads along one dimension."""
        return self.m + 2

    @property
    def points(self) -> int:
        return self.side**2

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of tiles; the last of each may reach over the edge."""
        rows, columns = (-(-extent // self.m) for extent in self.out_size)
        return rows, columns

    @property
    def tiles(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def padded(self) -> tuple[int, int]:
        """The input with zeros around it; rows are whole vectors, of whole groups of four tiles."""
        rows, columns = self.grid
        return rows * self.m + 2, -(-(columns * self.m + 2) // 4) * 4


def winograd_of(conv: Conv2d, m: int) -> Winograd:
    """Sizes of a convolution that is known to be 3x3 with stride 1, of one image and group."""
    return Winograd(
        m,
        conv.channels,
        conv.out_channels,
        (conv.height, conv.width),
        (conv.out_height, conv.out_width),
        conv.pad,
    )


def input_program(w: Winograd) -> Program:
    """``[1, C, H, W]`` to ``[points, C, rows, columns]`` of tiles."""
    (rows, columns), (height, width), (high, wide) = w.grid, w.size, w.padded
    (top, left), side = w.pad, w.side
    inside = _all(_from(ROW, top), _below(ROW, top + height), _from(COLUMN, left))
    inside = _all(inside, _below(COLUMN, left + width))
    at = {CHANNEL: height * width, ROW: width, COLUMN: 1}
    value = Load("in0", linear_expr((-top * width - left, at)))
    place = linear_expr((0, {CHANNEL: high * wide, ROW: wide, COLUMN: 1}))
    pad = Stage(
        "winograd_pad",
        (Axis(CHANNEL, w.channels), Axis(ROW, high), Axis(COLUMN, wide)),
        (Store("ws0", place, Select(inside, value, Const(0.0, "f32"))),),
    )
    band = {CHANNEL: rows * side * wide, "ty": side * wide}
    above = {CHANNEL: high * wide, "ty": w.m * wide, COLUMN: 1}
    down = Stage(
        "winograd_down",
        (Axis(CHANNEL, w.channels), Axis("ty", rows), Axis(COLUMN, wide)),
        _sums(into_tiles, w, "ws1", ({**band, COLUMN: 1}, wide), "ws0", (above, wide)),
    )
    plane = w.channels * w.tiles
    there = {CHANNEL: w.tiles, "i": side * plane, "ty": columns, "tx": 1}
    right = Stage(
        "winograd_right",
        (Axis(CHANNEL, w.channels), Axis("i", side), Axis("ty", rows), Axis("tx", columns)),
        _sums(into_tiles, w, "out0", (there, plane), "ws1", ({**band, "i": wide, "tx": w.m}, 1)),
    )
    buffers = (
        Buffer("in0", "f32", (1, w.channels, height, width), "input"),
        Buffer("out0", "f32", (w.points, w.channels, rows, columns), "output"),
        Buffer("ws0", "f32", (w.channels, high, wide), "workspace"),
        Buffer("ws1", "f32", (w.channels, rows, side, wide), "workspace"),
    )
    return Program(INPUT, buffers, (pad, down, right))


def product_program(w: Winograd) -> Program:
    """``out[t, p, o] = sum_c in0[p, c, t] * in1[c, p, o]``."""
    data = linear_expr((0, {"p": w.channels * w.tiles, "c": w.tiles, "t": 1}))
    weight = linear_expr((0, {"c": w.points * w.out_channels, "p": w.out_channels, "n": 1}))
    place = linear_expr((0, {"t": w.points * w.out_channels, "p": w.out_channels, "n": 1}))
    product = Load("in0", data) * Load("in1", weight)
    stage = Stage(
        PRODUCT,
        (
            Axis("t", w.tiles),
            Axis("p", w.points),
            Axis("n", w.out_channels),
            Axis("c", w.channels, "reduce"),
        ),
        (Store("out0", place, Load("out0", place) + product),),
        (Store("out0", place, Const(0.0, "f32")),),
    )
    buffers = (
        Buffer("in0", "f32", (w.points, w.channels, *w.grid), "input"),
        Buffer("in1", "f32", (w.channels, w.points * w.out_channels), "input", True),
        Buffer("out0", "f32", (*w.grid, w.points, w.out_channels), "output"),
    )
    return Program(PRODUCT, buffers, (stage,))


def output_program(w: Winograd, conv: Program, stores: Sequence[Store]) -> Program:
    """``[rows, columns, points, O]`` to what ``stores`` make of the convolution's sums.

    Parameters
    ----------
    conv
        The convolution's program, for its other inputs and its outputs.
    stores
        Of :class:`Conv2d`: over its variables and the accumulator.
    """
    others = read_behind(conv, stores)
    outputs = [b for b in conv.buffers if b.role == "output"]
    renamed = {b.name: f"in{i + 1}" for i, b in enumerate(others)}
    kept = tuple(replace(b, name=renamed[b.name]) for b in others)
    (rows, columns), spread = w.grid, w.m * w.grid[1]
    return Program(
        OUTPUT,
        (
            Buffer("in0", "f32", (rows, columns, w.points, w.out_channels), "input"),
            *kept,
            *outputs,
            Buffer("ws0", "f32", (rows * w.m, columns, w.side, w.out_channels), "workspace"),
            Buffer("ws1", "f32", (w.out_channels, rows * w.m, spread), "workspace"),
        ),
        (*_out_of_tiles(w), _epilogue(w, stores, renamed)),
    )


def read_behind(conv: Program, stores: Sequence[Store]) -> list[Buffer]:
    """Inputs that the epilogue reads, in the order of the convolution's program."""
    read = {load.buffer for s in stores for e in (s.index, s.value) for load in loads(e)}
    return [b for b in conv.buffers if b.role == "input" and b.name in read]


def _out_of_tiles(w: Winograd) -> tuple[Stage, Stage]:
    (rows, columns), side, m = w.grid, w.side, w.m
    step = w.out_channels
    tile = {"tx": w.points * step, "b": step, CHANNEL: 1}
    row = {"tx": side * step, CHANNEL: 1}
    down = Stage(
        "winograd_down",
        (Axis("ty", rows), Axis("tx", columns), Axis("b", side), Axis(CHANNEL, step)),
        _sums(
            out_of_tiles,
            w,
            "ws0",
            ({**row, "ty": m * columns * side * step, "b": step}, columns * side * step),
            "in0",
            ({**tile, "ty": columns * w.points * step}, side * step),
        ),
    )
    spread = m * columns
    right = Stage(
        "winograd_right",
        (Axis(ROW, rows * m), Axis("tx", columns), Axis(CHANNEL, step)),
        _sums(
            out_of_tiles,
            w,
            "ws1",
            ({CHANNEL: rows * m * spread, ROW: spread, "tx": m}, 1),
            "ws0",
            ({**row, ROW: columns * side * step}, step),
        ),
    )
    return down, right


def _epilogue(w: Winograd, stores: Sequence[Store], renamed: dict[str, str]) -> Stage:
    def named(expr: Expr) -> Expr:
        found = {
            (e.buffer, e.index): Load(renamed[e.buffer], e.index)
            for e in loads(expr)
            if e.buffer in renamed
        }
        return replace_loads(expr, found)

    extents = (CHANNEL, w.out_channels), (ROW, w.out_size[0]), (COLUMN, w.out_size[1])
    total: dict[str, Expr] = {ACCUMULATOR: _total(w)}
    return Stage(
        "epilogue",
        tuple(Axis(var, extent) for var, extent in extents),
        tuple(Store(s.buffer, s.index, substitute(named(s.value), total)) for s in stores),
    )


def _total(w: Winograd) -> Load:
    """The convolution's sum at the variables of a point."""
    rows, columns = (w.m * extent for extent in w.grid)
    return Load("ws1", linear_expr((0, {CHANNEL: rows * columns, ROW: columns, COLUMN: 1})))


def recognize_input(program: Program) -> Winograd | None:
    """The sizes of an :func:`input_program`, None for any other program."""
    if program.name != INPUT or len(program.buffers) != 4 or len(program.stages) != 3:
        return None
    (_, channels, height, width), (points, _, rows, columns) = (
        b.shape for b in program.buffers[:2]
    )
    value = program.stages[0].body[0].value
    extents = program.stages[0].extents
    box = limits_of(value.condition, extents) if isinstance(value, Select) else None
    if box is None or not {ROW, COLUMN} <= box.keys():
        return None
    m = _tile_of(points)
    found = Winograd(
        m, channels, 0, (height, width), (rows * m, columns * m), (box[ROW][0], box[COLUMN][0])
    )
    return found if m in TILES and input_program(found) == program else None


def recognize_output(program: Program) -> tuple[Winograd, tuple[Store, ...]] | None:
    """The sizes of an :func:`output_program` and its stores over the accumulator.

    None for any other program. The convolution's input is not known here.
    """
    if program.name != OUTPUT or len(program.stages) != 3 or len(program.buffers[0].shape) != 4:
        return None
    (_, _, points, channels), tail = program.buffers[0].shape, program.stages[2]
    extents = tail.extents
    if list(extents) != [CHANNEL, ROW, COLUMN]:
        return None
    size = extents[ROW], extents[COLUMN]
    found = Winograd(_tile_of(points), 0, channels, size, size, (1, 1))
    if found.m not in TILES or _out_of_tiles(found) != program.stages[:2]:
        return None
    total = _total(found)
    sums: dict[tuple[str, Expr], Expr] = {(total.buffer, total.index): Var(ACCUMULATOR)}
    stores = tuple(Store(s.buffer, s.index, replace_loads(s.value, sums)) for s in tail.body)
    spaces = {"ws0", "ws1"}
    left = {load.buffer for s in stores for load in loads(s.value)} & spaces
    return None if left else (found, stores)


def winograd_labels(program: Program) -> tuple[str, ...]:
    """Labels of the epilogue of the last of the three programs; empty for any other program."""
    found = recognize_output(program)
    return epilogue_labels(found[1][0].value, program, ROW, CHANNEL) if found else ()


def _tile_of(points: int) -> int:
    return math.isqrt(points) - 2


_Place = tuple[dict[str, int], int]
"""Coefficients of the variables, and the step from one row or column of a tile to the next."""


def _sums(
    transform: Callable[[int, Sequence[Expr]], tuple[Lines, list[Expr]]],
    w: Winograd,
    target: str,
    there: _Place,
    source: str,
    here: _Place,
) -> tuple[Store, ...]:
    """A store for each result of a transform of neighbours."""
    (out, out_step), (given, step) = there, here
    neighbours = [Load(source, linear_expr((a * step, given))) for a in range(w.side)]
    lines, values = transform(w.m, neighbours)
    named = dict(lines)
    return tuple(
        Store(target, linear_expr((i * out_step, out)), substitute(value, named))
        for i, value in enumerate(values)
    )


def _all(*conditions: Expr) -> Expr:
    first, *rest = conditions
    for condition in rest:
        first = Binary("and", first, condition)
    return first


def _from(var: str, low: int) -> Expr:
    return Binary("le", Const(low, "i32"), Var(var))


def _below(var: str, high: int) -> Expr:
    return Binary("lt", Var(var), Const(high, "i32"))
