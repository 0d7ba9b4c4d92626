"""Both ends of Winograd's convolution: tiles along lanes on the way in, channels on the way out.

In: per channel the image is copied with zeros around it; a row of tiles is transformed
downwards, whole vectors of neighbouring columns, into a band that stays in L1; then
to the right, four tiles at a time, whose columns are sorted out by shuffles.
Out: four channels of a tile at a time, which stand side by side; four finished columns are
transposed, so that the epilogue runs on neighbouring pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.affine import LANES, Affine, affine, linear_expr
from nnjit_studio.compiler.ir.loops import (
    BEGIN,
    END,
    Assign,
    AssignVector,
    Element,
    EveryOther,
    For,
    Let,
    Put,
    Scheduled,
    Statement,
    When,
)
from nnjit_studio.compiler.ir.rewrite import int32, plus, times
from nnjit_studio.compiler.ir.tensor_ir import Axis, Binary, Expr, Program, Store, Var
from nnjit_studio.compiler.recognize.contraction import Contraction, Operand
from nnjit_studio.compiler.recognize.convolution import CHANNEL, COLUMN, ROW
from nnjit_studio.compiler.recognize.winograd import Winograd, recognize_input, recognize_output
from nnjit_studio.compiler.recognize.winograd_lines import Lines, into_tiles, out_of_tiles
from nnjit_studio.compiler.schedule.epilogue import COLUMN as TILE_COLUMN
from nnjit_studio.compiler.schedule.epilogue import ROW as TILE_CHANNEL
from nnjit_studio.compiler.schedule.epilogue import Epilogue, acc, plan_epilogue
from nnjit_studio.compiler.schedule.padding import padded, padding_of

BLOCK = 16
"""Output channels of one parallel step, a row of tiles: a cache line of each point."""


def schedule_winograd(program: Program) -> Scheduled | None:
    """The loops of either end, None for any other program."""
    found = recognize_input(program)
    if found is not None:
        return _input(program, found)
    end = recognize_output(program)
    return _output(program, *end) if end is not None else None


def _input(program: Program, w: Winograd) -> Scheduled:
    rows, columns = w.grid
    stage = program.stages[0]
    padding = padding_of(stage.body, stage.extents)
    assert padding is not None
    body = padded(padding, stage.axes[1:], COLUMN)
    body.append(For("ty", int32(0), int32(rows), 1, [*_down(w), *_right(w, columns)]))
    body = [Let(CHANNEL, Var("$p"), body)]
    return Scheduled([For("$p", Var(BEGIN), Var(END), 1, body)], w.channels)


def _band(w: Winograd) -> int:
    return w.grid[0] * w.side * w.padded[1]


def _down(w: Winograd) -> list[Statement]:
    """A row of tiles into the band, the same one for all rows of a channel."""
    high, wide = w.padded
    names = [f"d{a}" for a in range(w.side)]
    at = {CHANNEL: high * wide, "ty": w.m * wide, COLUMN: 1}
    body: list[Statement] = [
        _load(name, "ws0", linear_expr((a * wide, at))) for a, name in enumerate(names)
    ]
    stores = [linear_expr((i * wide, {CHANNEL: _band(w), COLUMN: 1})) for i in range(w.side)]
    body += _put(*into_tiles(w.m, _locals(names)), "ws1", stores, COLUMN)
    return [For(COLUMN, int32(0), int32(wide), LANES, body)]


def _right(w: Winograd, columns: int) -> list[Statement]:
    """Four tiles of each row of the band; the last four may overlap those before."""
    wide, plane = w.padded[1], w.channels * w.tiles
    names = [f"d{b}" for b in range(w.side)]
    at = {CHANNEL: _band(w), "i": wide, "tx": w.m}
    place = {CHANNEL: w.tiles, "i": w.side * plane, "ty": columns, "tx": 1}
    body: list[Statement] = []
    if w.m == 2:
        for shift in (0, 2):
            low, high = ("low", "high")
            body += [
                _load(low, "ws1", linear_expr((shift, at))),
                _load(high, "ws1", linear_expr((shift + LANES, at))),
                AssignVector(names[shift], EveryOther(low, high, False)),
                AssignVector(names[shift + 1], EveryOther(low, high, True)),
            ]
    else:
        parts = [f"q{b}" for b in range(LANES + 1)]
        body += [_load(name, "ws1", linear_expr((LANES * b, at))) for b, name in enumerate(parts)]
        body += transposed(parts[:LANES], names[:LANES])
        body += transposed(parts[1:], names[LANES:])
    stores = [linear_expr((j * plane, place)) for j in range(w.side)]
    body += _put(*into_tiles(w.m, _locals(names)), "out0", stores, "tx")
    count = -(-columns // LANES)
    first = times(Var("$group"), LANES)
    if columns % LANES:
        first = Binary("min", first, int32(columns - LANES))
    body = [For("$group", int32(0), int32(count), 1, [Let("tx", first, body)])]
    return [For("i", int32(0), int32(w.side), 1, body)]


def _output(program: Program, w: Winograd, stores: Sequence[Store]) -> Scheduled:
    nowhere = Operand("in0", 0, (0,), 0, 0)
    sums = Contraction(
        batch=(Axis(ROW, w.out_size[0]),),
        m=w.out_channels,
        n=w.out_size[1],
        k=1,
        m_var=CHANNEL,
        n_var=COLUMN,
        a=nowhere,
        b=nowhere,
        packable=False,
        epilogue=tuple(stores),
        labels=(),
    )
    epilogue = plan_epilogue(program, sums)
    rows = w.grid[0]
    block = Var("$p") // rows
    body: list[Statement] = [Let("ty", Var("$p") % rows, _tiles(w, epilogue))]
    body = [Let("$first", times(block, BLOCK), body)]
    return Scheduled([For("$p", Var(BEGIN), Var(END), 1, body)], w.out_channels // BLOCK * rows)


def _tiles(w: Winograd, epilogue: Epilogue) -> list[Statement]:
    """One row of tiles."""
    together = LANES // w.m
    whole, rest = divmod(w.out_size[1], LANES)

    def channels(tiles: int, pixels: int) -> list[Statement]:
        column = Let(TILE_COLUMN, times(Var("tx"), w.m), _tile(w, epilogue, tiles, pixels))
        end = plus(Var("$first"), BLOCK)
        return [For(TILE_CHANNEL, Var("$first"), end, LANES, [column])]

    body: list[Statement] = [
        For("tx", int32(0), int32(whole * together), together, channels(together, LANES))
    ]
    if rest:
        tiles = -(-rest // w.m)
        body.append(Let("tx", int32(whole * together), channels(tiles, rest)))
    return body


def _tile(w: Winograd, epilogue: Epilogue, tiles: int, pixels: int) -> list[Statement]:
    """Rows of ``pixels`` outputs of four channels, from tiles side by side."""
    body: list[Statement] = []
    step = w.out_channels
    at = {"ty": w.grid[1] * w.points * step, "tx": w.points * step, TILE_CHANNEL: 1}
    for tile in range(tiles):
        for b in range(w.side):
            names = [f"d{a}" for a in range(w.side)]
            for a, name in enumerate(names):
                point = (tile * w.points + a * w.side + b) * step
                body.append(_load(name, "in0", linear_expr((point, at))))
            lines, values = out_of_tiles(w.m, _locals(names))
            body += _assign(lines)
            body += _assign([(f"h{tile}_{i}_{b}", v) for i, v in enumerate(values)])
    last = w.out_size[0] % w.m or w.m
    for i in range(w.m):
        columns = []
        for tile in range(tiles):
            lines, values = out_of_tiles(w.m, [Var(f"h{tile}_{i}_{b}") for b in range(w.side)])
            body += _assign(lines)
            found = [(f"x{tile * w.m + j}", v) for j, v in enumerate(values)]
            body += _assign(found)
            columns += [name for name, _ in found]
        columns += columns[:1] * (LANES - len(columns))
        body += transposed(columns, [acc(k, 0) for k in range(LANES)])
        end = epilogue.finish(LANES, (pixels,))
        if i >= last:
            end = [When(Binary("lt", Var(ROW), int32(w.out_size[0])), end, [])]
        body.append(Let(ROW, plus(times(Var("ty"), w.m), i), end))
    return body


def transposed(rows: Sequence[str], columns: Sequence[str]) -> list[Statement]:
    """The first columns of four vectors, as many as there are names for them."""
    body: list[Statement] = []
    for odd in (False, True)[: len(columns)]:
        for half, (low, high) in zip("lh", (rows[:2], rows[2:]), strict=True):
            body.append(AssignVector(f"{half}{int(odd)}", EveryOther(low, high, odd)))
    body += [
        AssignVector(name, EveryOther(f"l{k % 2}", f"h{k % 2}", k >= 2))
        for k, name in enumerate(columns)
    ]
    return body


def _locals(names: Sequence[str]) -> list[Expr]:
    return [Var(name) for name in names]


def _load(local: str, buffer: str, index: Expr) -> Statement:
    found: Affine = affine(index)
    return AssignVector(local, Element(buffer, found, LANES))


def _assign(lines: Sequence[tuple[str, Expr]]) -> list[Statement]:
    return [Assign(((name, "f32"),), (value,), COLUMN) for name, value in lines]


def _put(
    lines: Lines, values: Sequence[Expr], buffer: str, places: Sequence[Expr], along: str
) -> list[Statement]:
    puts = [
        Put((Store(buffer, place, value),), along)
        for place, value in zip(places, values, strict=True)
    ]
    return [*_assign(lines), *puts]
