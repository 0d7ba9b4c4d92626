"""The lab's form of a product of float32 matrices: operands rounded to f16, sums in f32.

Both operands are written to scratch as dense f16 matrices, multiplied on the matrix units
(``subgroup_matrix.py``), and a last dispatch applies the epilogue. For
``nnjit offload --measure --gpu lab``; none enters a session, a bundle or a plan that is written.
"""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.contraction import Contraction, Operand
from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument, Shader
from nnjit_studio.compiler.wgsl.core.finish import SCRATCH, Finish
from nnjit_studio.compiler.wgsl.core.syntax import plus, times
from nnjit_studio.compiler.wgsl.templates.matmul import add_parts, batch_axes, folded
from nnjit_studio.compiler.wgsl.templates.subgroup_matrix import (
    MatrixTiles,
    matrix_product,
    matrix_space,
)

ROUNDING = 2.0**-10
"""Relative error of a product of two operands that were rounded to f16."""

_ENOUGH = 128
"""Workgroups that keep a large GPU busy."""
_TILES = (MatrixTiles(4, 4, 2, 2, 2), MatrixTiles(2, 4, 2, 2, 2), MatrixTiles(2, 2, 2, 2, 2))
"""Large tiles first; the first was the fastest of those tried at 4096^3 on an NVIDIA H200."""
_THREADS = 256
_A, _B = "s1", "s2"


def guess(m: int, k: int, n: int) -> MatrixTiles | None:
    """Settings for a product that nobody tuned; None where no tile fits it."""
    fitting = matrix_space(m, k, n)
    liked = [tiles for tiles in _TILES if tiles in fitting] or fitting[-1:]
    enough = [t for t in liked if m // t.rows * (n // t.columns) >= _ENOUGH]
    return next(iter((*enough, *liked[-1:])), None)


def rounded_product(program: Program, c: Contraction) -> KernelDocument | None:
    """The document of a product; None where no tile fits.

    Raises
    ------
    CompileError
        When its results share words.
    """
    tiles = guess(c.m, c.k, c.n)
    if tiles is None or "f16" in (c.a.dtype, c.b.dtype):
        return None
    product = matrix_product(c.batches, c.m, c.k, c.n, tiles)
    (inner,) = product.dispatches
    argument = Finish(program, c, 1).argument
    dispatches = (
        _rounded(c, c.a, c.m, c.k, argument(c.a.buffer), _A),
        _rounded(c, c.b, c.k, c.n, argument(c.b.buffer), _B),
        replace(inner, bindings=(_A, _B, SCRATCH)),
        add_parts(program, c, 1),
    )
    sizes = (4 * c.m * c.n, 2 * c.m * c.k, 2 * c.k * c.n)
    return KernelDocument(dispatches, tuple(c.batches * n for n in sizes), product.requires)


def _rounded(
    c: Contraction, operand: Operand, rows: int, columns: int, source: str, to: str
) -> Dispatch:
    """Writes an operand as a dense matrix of f16; each thread two neighbours."""
    shader = Shader()
    shader.bind(source, "given", "array<f32>")
    shader.bind(to, "rounded", "array<u32>", "read_write")
    across = columns // 2
    count = c.batches * rows * across
    grid = folded(-(-count // _THREADS))
    batch = (times(axis.var, s) for axis, s in zip(c.batch, operand.batch, strict=True))
    first = plus(
        *batch, times("row", operand.row), times("column", 2 * operand.column), str(operand.offset)
    )
    body = [
        f"let at = {plus(times('wg.y', grid[0] * _THREADS), times('wg.x', _THREADS), 'li')};",
        f"if (at >= {count}u) {{ return; }}",
        *batch_axes(c, f"(at / {rows * across}u)"),
        f"let row = at / {across}u % {rows}u;",
        f"let column = at % {across}u;",
        f"let first = {first};",
        f"let pair = vec2<f32>(given[first], given[first + {operand.column}u]);",
        "rounded[at] = pack2x16float(pair);",
    ]
    return shader.dispatch(_THREADS, grid, body)
