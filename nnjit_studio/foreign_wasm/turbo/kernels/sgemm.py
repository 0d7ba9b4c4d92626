"""Products on panels of 16 columns: the contract of MLAS' Wasm kernels, for a tile of any shape.

The contract is public in ONNX Runtime's ``core/mlas/lib/wasm_simd/SgemmKernelWasmSimd.cpp``:
``(A, B, C, CountK, CountM, CountN, lda, ldc, alpha) -> rows``. ``lda`` and ``ldc`` count floats. B
lies in panels of 16 columns, the reduction outermost, and the last panel is filled up. ``Zero``
writes ``alpha * sum``, ``Add`` adds it to C; each sum starts from +0 and runs upwards. A call
handles as many rows as it likes, at least one and at most ``CountM``, and returns how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from nnjit_studio.compiler.wasm.fuse_multiply_add import fuse_multiply_add
from nnjit_studio.compiler.wasm.ir import (
    Const,
    Function,
    IfElse,
    Load,
    LocalGet,
    LocalSet,
    LocalTee,
    Loop,
    Node,
    Op,
    Store,
    add,
    i32,
    scale,
)

PANEL = 16
"""Columns of a panel of B."""
ROW_BYTES = 4 * PANEL
"""Between two steps of the reduction in a panel."""
PARAMS = ["A", "B", "C", "CountK", "CountM", "CountN", "lda", "ldc", "alpha"]
A, B, C, COUNT_K, COUNT_M, COUNT_N, LDA, LDC, ALPHA = range(len(PARAMS))
LANES = 4
_LOADS = {"v128": "v128.load", "v64": "v128.load64_zero", "v32": "v128.load32_zero"}
_STORES = {
    "v128": ("v128.store", -1),
    "v64": ("v128.store64_lane", 0),
    "v32": ("v128.store32_lane", 0),
}


class Mode(Enum):
    """What happens to C."""

    ZERO = "zero"
    ADD = "add"


@dataclass(frozen=True, order=True)
class Tile:
    """Rows and columns of sums that are held at once, and the unroll of the reduction.

    ``columns`` is 4, 8, 16, or 32 for two panels at once (one row then).
    """

    rows: int
    columns: int
    unroll: int = 4

    @property
    def vectors(self) -> int:
        return self.columns // LANES


REMAINDERS = (Tile(4, 8), Tile(2, 16), Tile(1, 32))
"""For fewer rows than the tile has. Single rows read two panels, for one is bound by its loads."""


def sgemm(mode: Mode, tile: Tile, fma: bool) -> Function:
    """The kernel with this tile; with ``fma`` its twin in relaxed multiply-adds.

    Without, it is bit-identical to the original: the same products and sums in the same order.
    """
    function = _Rows(mode, tile).function()
    if fma:
        fuse_multiply_add(function)
    return function


class _Rows:
    """Builds a function; locals are shared by the tiles, of which one runs a call."""

    def __init__(self, mode: Mode, tile: Tile) -> None:
        self._adds = mode is Mode.ADD
        rest = (t for t in REMAINDERS if t.rows < tile.rows)
        self._tiles = [tile, *(Tile(t.rows, t.columns, tile.unroll) for t in rest)]
        if tile.rows == 1:
            self._tiles = [tile]
        self._function = Function(PARAMS.copy())
        most = max(t.rows for t in self._tiles)
        new = self._function.new_local
        self._a = [new("i32", f"a{i}") for i in range(most)]
        self._c = [new("i32", f"c{i}") for i in range(most)]
        self._b = [new("i32", "b0"), new("i32", "b1")]
        self._panel, self._half = new("i32", "panel"), new("i32", "half")
        self._k, self._n = new("i32", "k"), new("i32", "n")
        self._sums = [
            new("v128", f"sum{i}") for i in range(max(t.rows * t.vectors for t in self._tiles))
        ]
        self._columns = [new("v128", f"column{i}") for i in range(PANEL // LANES)]
        self._splat, self._alpha = new("v128", "splat"), new("v128", "alpha")

    def function(self) -> Function:
        made: list[Node] = []
        for tile in reversed(self._tiles):
            block = [*self._block(tile), i32(tile.rows)]
            enough = Op("i32.ge_u", (LocalGet(COUNT_M), i32(tile.rows)))
            made = [IfElse(enough, block, made, "i32")] if made else block
        self._function.body = [
            LocalSet(LDA, scale(LocalGet(LDA), 4)),
            LocalSet(LDC, scale(LocalGet(LDC), 4)),
            LocalSet(self._alpha, Op("f32x4.splat", (LocalGet(ALPHA),))),
            *made,
        ]
        return self._function

    def _block(self, tile: Tile) -> list[Node]:
        """All columns of ``tile.rows`` rows."""
        start: list[Node] = [
            LocalSet(self._n, LocalGet(COUNT_N)),
            LocalSet(self._panel, LocalGet(B)),
            *self._pointers(self._c[: tile.rows], C, LDC),
        ]
        if tile.columns <= PANEL:
            return [*start, self._panels(tile)]
        pairs = Op("i32.ge_u", (LocalGet(self._n), i32(tile.columns)))
        both: list[Node] = [
            LocalSet(self._b[0], LocalGet(self._panel)),
            LocalSet(self._b[1], add(LocalGet(self._panel), self._panel_bytes())),
            *self._sum(tile),
            LocalSet(self._panel, LocalGet(self._b[1])),
            *self._whole(tile),
        ]
        rest = self._panels(Tile(tile.rows, PANEL, tile.unroll))
        return [*start, IfElse(pairs, [Loop(both, pairs)]), IfElse(LocalGet(self._n), [rest])]

    def _panels(self, tile: Tile) -> Node:
        """Panel after panel, each in parts of ``tile.columns``."""
        body: list[Node] = [
            LocalSet(self._b[0], add(LocalGet(self._panel), LocalGet(self._half))),
            *self._sum(tile),
            IfElse(
                Op("i32.ge_u", (LocalGet(self._n), i32(tile.columns))),
                self._whole(tile),
                [*self._tail(tile), LocalSet(self._n, i32(0))],
            ),
        ]
        if tile.columns < PANEL:
            left = Op("i32.lt_u", (LocalGet(self._half), i32(ROW_BYTES)))
            step = LocalSet(self._half, add(LocalGet(self._half), i32(4 * tile.columns)))
            more = Op("i32.and", (left, Op("i32.ne", (LocalGet(self._n), i32(0)))))
            body = [Loop([*body, step], more)]
        next_panel = LocalSet(self._panel, add(LocalGet(self._panel), self._panel_bytes()))
        return Loop([LocalSet(self._half, i32(0)), *body, next_panel], LocalGet(self._n))

    def _panel_bytes(self) -> Node:
        return scale(LocalGet(COUNT_K), ROW_BYTES)

    def _sum(self, tile: Tile) -> list[Node]:
        """The sums of a tile, times alpha; B's pointers are set and end behind what was read."""
        zero = Const("v128", bytes(16))
        sums = self._sums[: tile.rows * tile.vectors]
        bs = self._b[: -(-tile.columns // PANEL)]
        loops = [self._steps(tile, unroll, bs) for unroll in sorted({tile.unroll, 1}, reverse=True)]
        return [
            *self._pointers(self._a[: tile.rows], A, LDA),
            *(LocalSet(s, zero) for s in sums),
            LocalSet(self._k, LocalGet(COUNT_K)),
            *loops,
            *(LocalSet(s, Op("f32x4.mul", (LocalGet(s), LocalGet(self._alpha)))) for s in sums),
        ]

    def _steps(self, tile: Tile, unroll: int, bs: Sequence[int]) -> Node:
        body = [node for u in range(unroll) for node in self._step(tile, u, bs)]
        body += [LocalSet(a, add(LocalGet(a), i32(4 * unroll))) for a in self._a[: tile.rows]]
        body += [LocalSet(b, add(LocalGet(b), i32(ROW_BYTES * unroll))) for b in bs]
        fewer = LocalTee(self._k, Op("i32.sub", (LocalGet(self._k), i32(unroll))))
        enough = Op("i32.ge_u", (LocalGet(self._k), i32(unroll)))
        return IfElse(enough, [Loop(body, Op("i32.ge_u", (fewer, i32(unroll))))])

    def _step(self, tile: Tile, u: int, bs: Sequence[int]) -> list[Node]:
        """One step of the reduction: an outer product."""
        columns: list[Node] = [
            Load("v128.load", LocalGet(bs[j // 4]), ROW_BYTES * u + 16 * (j % 4), "B")
            for j in range(tile.vectors)
        ]
        nodes: list[Node] = []
        if tile.rows > 1:  # a single row needs every vector of B once
            nodes = [LocalSet(c, load) for c, load in zip(self._columns, columns, strict=False)]
            columns = [LocalGet(c) for c in self._columns[: tile.vectors]]
        for i in range(tile.rows):
            splat = Load("v128.load32_splat", LocalGet(self._a[i]), 4 * u, "A")
            nodes.append(LocalSet(self._splat, splat))
            for j, column in enumerate(columns):
                total = self._sums[i * tile.vectors + j]
                product = Op("f32x4.mul", (LocalGet(self._splat), column))
                nodes.append(LocalSet(total, Op("f32x4.add", (LocalGet(total), product))))
        return nodes

    def _whole(self, tile: Tile) -> list[Node]:
        nodes: list[Node] = []
        for c, sums in self._rows(tile):
            for j, total in enumerate(sums):
                nodes.append(_stored("v128", c, total, 16 * j, self._adds))
            nodes.append(LocalSet(c, add(LocalGet(c), i32(4 * tile.columns))))
        nodes.append(LocalSet(self._n, Op("i32.sub", (LocalGet(self._n), i32(tile.columns)))))
        return nodes

    def _tail(self, tile: Tile) -> list[Node]:
        """Fewer columns than the tile has: by powers of two, the sums move to the front."""
        nodes: list[Node] = []
        columns = tile.columns // 2
        while columns >= 1:
            part: list[Node] = []
            for c, sums in self._rows(tile):
                part += _part(columns, c, sums, self._adds)
            nodes.append(IfElse(Op("i32.and", (LocalGet(self._n), i32(columns))), part))
            columns //= 2
        return nodes

    def _rows(self, tile: Tile) -> list[tuple[int, list[int]]]:
        width = tile.vectors
        return [(self._c[i], self._sums[i * width : (i + 1) * width]) for i in range(tile.rows)]

    def _pointers(self, pointers: Sequence[int], first: int, stride: int) -> list[Node]:
        before = [LocalGet(first), *(add(LocalGet(p), LocalGet(stride)) for p in pointers)]
        return [LocalSet(p, value) for p, value in zip(pointers, before, strict=False)]


def _part(columns: int, c: int, sums: Sequence[int], adds: bool) -> list[Node]:
    """So many columns of one row written; those behind them move to the front."""
    if columns >= LANES:
        count = columns // LANES
        nodes: list[Node] = [_stored("v128", c, sums[j], 16 * j, adds) for j in range(count)]
        moved = zip(sums[:count], sums[count : 2 * count], strict=True)
        nodes += [LocalSet(to, LocalGet(of)) for to, of in moved]
    else:
        nodes = [_stored(f"v{32 * columns}", c, sums[0], 0, adds)]
        if columns == 2:
            high = Op("i32x4.shuffle_2323", (LocalGet(sums[0]), LocalGet(sums[0])))
            nodes.append(LocalSet(sums[0], high))
    return [*nodes, LocalSet(c, add(LocalGet(c), i32(4 * columns)))]


def _stored(width: str, c: int, total: int, offset: int, adds: bool) -> Node:
    """The first bits of a sum written to C, or added to what is there."""
    value: Node = LocalGet(total)
    if adds:
        value = Op("f32x4.add", (value, Load(_LOADS[width], LocalGet(c), offset, "C")))
    store, lane = _STORES[width]
    return Store(store, LocalGet(c), value, offset, "C", lane)
