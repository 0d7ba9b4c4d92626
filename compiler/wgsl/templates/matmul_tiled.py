"""The tiled product in WGSL: a workgroup's tile through workgroup memory and registers.

Each step lays the tile that is in registers into workgroup memory, fetches the
next one into registers and multiplies: loads wait behind multiply-adds. The
last step fetches its own tile again, for a load under a condition would be
waited for where the condition ends. Where two stages fit into workgroup
memory, one barrier a step is enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nnjit_studio.compiler.wgsl.core.operand import Fetch
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times, vector
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.usage import stages, tile_width

_WARP = 32
_WARP_COLUMNS, _WARP_ROWS = 8, 4
"""Threads of a warp over a tile: 8 columns by 4 rows read the fewest distinct vectors."""
_BAND = 8
"""Rows of workgroups that share columns of B in the cache, where there are many of both."""
_ROW_BY_ROW = ("let column = wg.x;", "let row = wg.y;")
_IN_BANDS = re.compile(r"// Bands of .*\n *let order .*\n *let row .*\n *let column .*")
"""What :func:`where` says otherwise."""


@dataclass(frozen=True)
class Arithmetic:
    """The number types of a product."""

    scalar: str = "f32"
    """WGSL's type of an element in workgroup memory."""
    total: str = "f32"
    """WGSL's type of a sum."""
    dot: str = ""
    """A function ``dot4`` of two words of four bytes each; empty for numbers."""
    excess: int = 0
    """What every byte of A has too little: so often B is added to the sums."""


FLOATS = Arithmetic()
_ONES = "0x01010101u"


@dataclass(frozen=True)
class Grid:
    """Workgroups of a product: columns, rows, and parts of the reduction for each batch."""

    columns: int
    rows: int
    batches: int
    steps: int
    parts: int

    @property
    def steps_each(self) -> int:
        """Tiles of k of one part."""
        return -(-self.steps // self.parts)


def grid_of(m: int, n: int, k: int, batches: int, c: GpuCandidate) -> Grid:
    """The workgroups of a candidate; parts that would have nothing to do are left out."""
    steps = -(-k // c.r1)
    each = -(-steps // min(c.split, steps))
    return Grid(-(-n // c.x1), -(-m // c.y1), batches, steps, -(-steps // each))


def where(grid: Grid) -> list[str]:
    """Which tile a workgroup makes: ``column`` and ``row``, counted in tiles."""
    band = next((b for b in (_BAND, _BAND // 2) if grid.rows % b == 0), 1)
    if band == 1 or min(grid.rows, grid.columns) < 2 * _BAND:
        return [*_ROW_BY_ROW]
    return [
        f"// Bands of {band} rows, so that workgroups that run together share tiles of A and B.",
        f"let order = wg.y * {grid.columns}u + wg.x;",
        f"let row = order / {band * grid.columns}u * {band}u + order % {band}u;",
        f"let column = order % {band * grid.columns}u / {band}u;",
    ]


def without_bands(code: str) -> str:
    """The text of a kernel that takes its tiles row by row, whatever :func:`where` chose."""
    return _IN_BANDS.sub("\n  ".join(_ROW_BY_ROW), code)


def thread_place(c: GpuCandidate) -> list[str]:
    """Which part of the tile a thread makes: ``tx`` and ``ty``, counted in vectors."""
    columns, rows = c.x1 // c.x0, c.y1 // c.y0
    if columns % _WARP_COLUMNS or rows % _WARP_ROWS or columns == _WARP_COLUMNS:
        return [f"let tx = li % {columns}u;", f"let ty = li / {columns}u;"]
    across = columns // _WARP_COLUMNS
    return [
        f"let warp = li / {_WARP}u;",
        f"let tx = warp % {across}u * {_WARP_COLUMNS}u + li % {_WARP_COLUMNS}u;",
        f"let ty = warp / {across}u * {_WARP_ROWS}u + li % {_WARP}u / {_WARP_COLUMNS}u;",
    ]


def accumulators(c: GpuCandidate) -> list[tuple[int, int]]:
    """Rows and vectors of columns of a thread."""
    return [(i, j) for i in range(c.y0) for j in range(c.x0 // tile_width(c.x0))]


def reduction(
    c: GpuCandidate, a: Fetch, b: Fetch, grid: Grid, arithmetic: Arithmetic = FLOATS
) -> list[str]:
    """The sums of a thread: the loop over the tiles of k."""
    kind = vector(b.width, arithmetic.total)
    own = [(i, j) for i, j in accumulators(c) if i == 0] if arithmetic.excess else []
    two = stages(c, a.side.k) == 2
    even = grid.steps % grid.steps_each == 0
    count = f"{grid.steps_each}u" if even else "count"
    final = f"{grid.steps_each - 1}u" if even else "count - 1u"
    first = "first" if grid.parts > 1 else "0u"
    stage = {f.side.name: times("(step % 2u)", f.size) if two else "0u" for f in (a, b)}
    return [
        *_range(grid),
        *(f"var c{i}_{j} = {kind}();" for i, j in accumulators(c)),
        *(f"var columns{j} = {kind}();" for _, j in own),
        *a.declare(),
        *b.declare(),
        *a.fetch(first),
        *b.fetch(first),
        f"for (var step = 0u; step < {count}; step++) {{",
        *([] if two else ["  workgroupBarrier();"]),
        *indented([*a.store(stage["A"]), *b.store(stage["B"])]),
        "  workgroupBarrier();",
        f"  let next = {plus(first, f'min(step + 1u, {final})')};",
        *indented([*a.fetch("next"), *b.fetch("next")]),
        *indented(_multiply(c, a, b, stage, arithmetic)),
        "}",
        *(f"c{i}_{j} += columns{j} * {arithmetic.excess};" for i, j in accumulators(c) if own),
    ]


def _range(grid: Grid) -> list[str]:
    """The tiles of k of a workgroup's part."""
    if grid.parts == 1:
        return []
    each = grid.steps_each
    lines = [f"let first = {times('part', each)};"]
    if grid.steps % each:
        lines.append(f"let count = min({each}u, {grid.steps}u - first);")
    return lines


def _multiply(
    c: GpuCandidate, a: Fetch, b: Fetch, stage: dict[str, str], arithmetic: Arithmetic
) -> list[str]:
    begin = [
        f"let beginA = {plus(stage['A'], 'ty')};",
        f"let beginB = {plus(stage['B'], 'tx')};",
    ]
    if c.r0 >= c.r1:
        return [*begin, *(line for e in range(c.r1) for line in _step(c, a, b, "", e, arithmetic))]
    # Counting by one, for only then does Tint see the range of k and leave out its checks.
    steps = [line for e in range(c.r0) for line in _step(c, a, b, "k", e, arithmetic)]
    return [
        *begin,
        f"for (var k = 0u; k < {c.r1 // c.r0}u; k++) {{",
        *indented(steps),
        "}",
    ]


def _step(c: GpuCandidate, a: Fetch, b: Fetch, k: str, e: int, arithmetic: Arithmetic) -> list[str]:
    """One step of k: the outer product of a thread's rows of A and columns of B."""
    lines = ["{"]
    for of, fetch, own, apart in (
        ("y", a, c.y0, c.y1 // c.y0),
        ("x", b, c.x0, c.x1 // c.x0),
    ):
        name = fetch.side.name
        row = times(k, c.r0 * fetch.pitch) if k else "0u"
        at = plus(f"begin{name}", row, str(e * fetch.pitch))
        for i in range(own // fetch.width):
            index = plus(at, str(i * apart)) if i else at
            lines.append(f"  let {of}{i} = tile{name}[{index}];")
    kind = vector(b.width, arithmetic.total)
    for i, j in accumulators(c):
        value = f"y{i // a.width}"
        if a.width > 1:
            value += f".{'xyzw'[i % a.width]}"
        if arithmetic.dot:
            if i == 0 and arithmetic.excess:
                lines.append(f"  columns{j} += {_dots(kind, _ONES, j, b.width)};")
            lines.append(f"  c{i}_{j} += {_dots(kind, value, j, b.width)};")
            continue
        factor = f"{kind}({value})" if b.width > 1 else value
        lines.append(f"  c{i}_{j} = fma({factor}, x{j}, c{i}_{j});")
    return [*lines, "}"]


def _dots(kind: str, value: str, j: int, width: int) -> str:
    """One word of A with each column of a vector of words of B."""
    columns = [f"x{j}"] if width == 1 else [f"x{j}.{e}" for e in "xyzw"[:width]]
    return f"{kind}({', '.join(f'dot4({value}, {column})' for column in columns)})"
