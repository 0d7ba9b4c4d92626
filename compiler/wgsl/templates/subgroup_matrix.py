"""The lab's products: f16 operands, f32 sums, on the matrix units of a GPU.

Browsers offer subgroup matrices behind a flag alone, so these kernels are for
``nnjit bench kernels --backend webgpu --lab``; none enters a session or a bundle.
Each subgroup keeps a block of fragments; workgroup memory holds tiles of A and B.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from nnjit_studio.compiler.wgsl.core.document import KernelDocument, Shader
from nnjit_studio.errors import CompileError

FEATURES = ("shader-f16", "subgroups", "chromium-experimental-subgroup-matrix")
FRAGMENT = 16
"""Rows, columns and depth of a fragment."""
SUBGROUP = 32
"""Threads of a subgroup; a device with another width fails, or is wrong and told so."""
_PAD = 8
"""Elements after each row of a tile, so that rows begin in different banks."""
_LOAD = 8
"""Halves in one load of 16 bytes."""
_MOST_THREADS = 256
_MOST_FRAGMENTS = 16
"""Of a subgroup's result: more of them spill."""
_MOST_TILE_BYTES = 32 * 1024
_LEFT = f"subgroup_matrix_left<f16, {FRAGMENT}, {FRAGMENT}>"
_RIGHT = f"subgroup_matrix_right<f16, {FRAGMENT}, {FRAGMENT}>"
_RESULT = f"subgroup_matrix_result<f32, {FRAGMENT}, {FRAGMENT}>"


@dataclass(frozen=True, order=True)
class MatrixTiles:
    """Settings of the template."""

    fx: int
    """Fragments that a subgroup keeps across columns of the result."""
    fy: int
    """Fragments that a subgroup keeps across rows of the result."""
    sx: int
    """Subgroups of a workgroup across columns."""
    sy: int
    """Subgroups of a workgroup across rows."""
    fr: int
    """Fragments of the reduction that a tile in workgroup memory holds."""

    @property
    def columns(self) -> int:
        """Of the result, for a workgroup."""
        return self.fx * self.sx * FRAGMENT

    @property
    def rows(self) -> int:
        """Of the result, for a workgroup."""
        return self.fy * self.sy * FRAGMENT

    @property
    def depth(self) -> int:
        return self.fr * FRAGMENT

    @property
    def threads(self) -> int:
        return SUBGROUP * self.sx * self.sy

    @property
    def tile_bytes(self) -> int:
        """Workgroup memory of both tiles."""
        of_a = self.rows * (self.depth + _PAD)
        return 2 * (of_a + self.depth * (self.columns + _PAD))

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in asdict(self).items())


def matrix_space(m: int, k: int, n: int) -> list[MatrixTiles]:
    """The settings that fit a product, the largest blocks of a subgroup first."""
    fitting = (
        tiles
        for fx, fy, sx, sy, fr in itertools.product(
            (1, 2, 4, 8), (1, 2, 4), (1, 2), (1, 2, 4), (1, 2, 4)
        )
        for tiles in (MatrixTiles(fx, fy, sx, sy, fr),)
        if _misfit(tiles, m, k, n) == ""
    )
    return sorted(fitting, key=lambda t: (-t.fx * t.fy, -t.threads, t))


def _misfit(t: MatrixTiles, m: int, k: int, n: int) -> str:
    """Why settings are not for a product; empty where they are."""
    if m % t.rows or n % t.columns or k % t.depth:
        return f"{m}x{k}x{n} is no multiple of {t.rows} rows, {t.depth} deep, {t.columns} columns"
    if t.threads > _MOST_THREADS or t.fx * t.fy > _MOST_FRAGMENTS:
        return f"{t.threads} threads with {t.fx * t.fy} fragments each subgroup"
    if t.tile_bytes > _MOST_TILE_BYTES:
        return f"{t.tile_bytes} bytes of workgroup memory"
    if (t.rows * t.depth) % (_LOAD * t.threads) or (t.columns * t.depth) % (_LOAD * t.threads):
        return f"{t.threads} threads do not share the loads of a tile"
    return ""


def matrix_product(batch: int, m: int, k: int, n: int, tiles: MatrixTiles) -> KernelDocument:
    """C = A B for ``batch`` pairs of row-major f16 matrices; C is f32.

    Raises
    ------
    CompileError
        When the settings do not fit the shape.
    """
    misfit = _misfit(tiles, m, k, n)
    if misfit:
        raise CompileError(f"{tiles} does not fit: {misfit}.", "Use one of matrix_space.")
    shader = Shader(("f16", "subgroups", "chromium_experimental_subgroup_matrix"))
    shader.line("diagnostic(off, chromium.subgroup_matrix_uniformity);")
    shader.bind("a0", "A", "array<vec4<u32>>")
    shader.bind("a1", "B", "array<vec4<u32>>")
    shader.bind("a2", "C", "array<f32>", "read_write")
    shader.workgroup("tileA", f"array<f16, {tiles.rows * (tiles.depth + _PAD)}>")
    shader.workgroup("tileB", f"array<f16, {tiles.depth * (tiles.columns + _PAD)}>")
    body = [
        f"let sg = li / {SUBGROUP}u;",
        f"let sgRow = (sg / {tiles.sx}u) * {tiles.fy * FRAGMENT}u;",
        f"let sgColumn = (sg % {tiles.sx}u) * {tiles.fx * FRAGMENT}u;",
        *(f"var c{i}_{j} = {_RESULT}();" for i, j in _fragments(tiles)),
        f"for (var step = 0u; step < {k // tiles.depth}u; step++) {{",
        *(f"  {line}" for line in _fill("A", tiles.rows, tiles.depth, k, m * k, tiles)),
        *(f"  {line}" for line in _fill("B", tiles.depth, tiles.columns, n, k * n, tiles)),
        "  workgroupBarrier();",
        *(f"  {line}" for line in _multiply(tiles)),
        "  workgroupBarrier();",
        "}",
        f"let place = wg.z * {m * n}u + (wg.y * {tiles.rows}u + sgRow) * {n}u"
        f" + wg.x * {tiles.columns}u + sgColumn;",
        *(
            f"subgroupMatrixStore<row_major>(&C, place + {i * FRAGMENT * n + j * FRAGMENT}u, "
            f"c{i}_{j}, {n}u);"
            for i, j in _fragments(tiles)
        ),
    ]
    workgroups = (n // tiles.columns, m // tiles.rows, batch)
    return KernelDocument(
        (shader.dispatch(tiles.threads, workgroups, body),), requires=tuple(sorted(FEATURES))
    )


def _fragments(tiles: MatrixTiles) -> Iterator[tuple[int, int]]:
    """Row and column of each fragment of a subgroup's result."""
    return itertools.product(range(tiles.fy), range(tiles.fx))


def _fill(
    matrix: str, rows: int, columns: int, stride: int, batch: int, tiles: MatrixTiles
) -> Iterator[str]:
    """All threads copy a tile of A or B, 16 bytes at a time."""
    across = columns // _LOAD
    row = f"wg.y * {rows}u" if matrix == "A" else f"step * {rows}u"
    column = f"step * {across}u" if matrix == "A" else f"wg.x * {across}u"
    for part in range(math.ceil(rows * across / tiles.threads)):
        yield "{"
        yield f"  let at = li + {part * tiles.threads}u;"
        yield f"  let r = at / {across}u;"
        yield f"  let c = at % {across}u;"
        yield (
            f"  let v = {matrix}[wg.z * {batch // _LOAD}u + ({row} + r) * {stride // _LOAD}u"
            f" + {column} + c];"
        )
        yield f"  let to = r * {columns + _PAD}u + c * {_LOAD}u;"
        for word in range(4):
            yield f"  let h{word} = bitcast<vec2<f16>>(v[{word}]);"
            yield f"  tile{matrix}[to + {2 * word}u] = h{word}.x;"
            yield f"  tile{matrix}[to + {2 * word + 1}u] = h{word}.y;"
        yield "}"


def _multiply(tiles: MatrixTiles) -> Iterator[str]:
    """A subgroup's fragments of both tiles, each loaded once, and all their products."""
    of_a, of_b = tiles.depth + _PAD, tiles.columns + _PAD
    for r in range(tiles.fr):
        for i in range(tiles.fy):
            at = f"(sgRow + {i * FRAGMENT}u) * {of_a}u + {r * FRAGMENT}u"
            yield f"let a{r}_{i} = subgroupMatrixLoad<{_LEFT}, row_major>(&tileA, {at}, {of_a}u);"
        for j in range(tiles.fx):
            at = f"{r * FRAGMENT * of_b}u + sgColumn + {j * FRAGMENT}u"
            yield f"let b{r}_{j} = subgroupMatrixLoad<{_RIGHT}, row_major>(&tileB, {at}, {of_b}u);"
            for i in range(tiles.fy):
                yield (
                    f"c{i}_{j} = subgroupMatrixMultiplyAccumulate(a{r}_{i}, b{r}_{j}, c{i}_{j});"
                )
