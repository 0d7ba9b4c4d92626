"""Many rows times a 4-bit matrix: blocks decoded into workgroup memory."""

from __future__ import annotations

from typing import Protocol

from nnjit_studio.compiler.wgsl.core.document import Dispatch, Shader
from nnjit_studio.compiler.wgsl.templates.gemv_4bit import Matrix4
from nnjit_studio.compiler.wgsl.templates.gemv_operands import Plain
from nnjit_studio.compiler.wgsl.templates.nibbles import COLUMNS, OFFSETS, WORD, decoded
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate


class Stores(Protocol):
    """The destination of a sum."""

    def declare(self, shader: Shader) -> None:
        """Bind buffers, add functions."""

    def at(self, m: str, n: str, value: str) -> list[str]:
        """Lines for the sum of row ``m`` and column ``n``; either may lie outside."""


def gemm_4bit(matrix: Matrix4, candidate: GpuCandidate, source: Plain, stores: Stores) -> Dispatch:
    """The dispatch of ``source.rows`` x K by K x N.

    Parameters
    ----------
    candidate
        A workgroup makes ``y1`` rows of ``x1`` columns, a thread ``y0`` of ``x0``, both
        multiples of 4, ``r1`` steps of k at a time, a part of a block; ``r0`` and ``split`` are 1.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    c = candidate
    _check(matrix, c)
    threads, depth = c.threads, c.r1
    columns, words = matrix.n // COLUMNS, depth // WORD
    stride = (matrix.stride or matrix.n) // COLUMNS
    wide, high = c.x1 // COLUMNS, c.y1 // 4
    shader = Shader()
    shader.bind(matrix.words, "words", f"array<vec4<u32>, {matrix.rows * columns}>")
    width = "vec2<u32>" if matrix.half_scales else "vec4<f32>"
    groups = matrix.k // matrix.block
    shader.bind(matrix.scales, "scales", f"array<{width}, {groups * stride}>")
    if matrix.zeros:
        shader.bind(matrix.zeros, "zeros", f"array<u32, {groups * stride}>")
    source.declare(shader)
    stores.declare(shader)
    shader.workgroup("rows", f"array<vec4<f32>, {depth * (high + 1)}>")
    shader.workgroup("tile", f"array<vec4<f32>, {depth * wide}>")
    across, down = c.x1 // c.x0, c.y0 // 4
    accumulators = [(i, j) for i in range(c.y0) for j in range(c.x0 // COLUMNS)]
    body = [
        f"let tx = li % {across}u;",
        f"let ty = li / {across}u;",
        *(f"var c{i}_{j} = vec4<f32>();" for i, j in accumulators),
        f"for (var step = 0u; step < {matrix.k // depth}u; step++) {{",
        *(f"  {line}" for line in _fetch_rows(source, c, depth, high)),
        *(f"  {line}" for line in _fetch_tile(matrix, c, words, columns, stride, wide)),
        "  workgroupBarrier();",
        f"  for (var k = 0u; k < {depth}u; k++) {{",
        *(
            f"    let a{i} = rows[k * {high + 1}u + ty + {i * (c.y1 // c.y0)}u];"
            for i in range(down)
        ),
        *(
            f"    let b{j} = tile[k * {wide}u + tx + {j * across}u];"
            for j in range(c.x0 // COLUMNS)
        ),
        *(
            f"    c{i}_{j} = fma(vec4<f32>(a{i // 4}.{'xyzw'[i % 4]}), b{j}, c{i}_{j});"
            for i, j in accumulators
        ),
        "  }",
        "  workgroupBarrier();",
        "}",
    ]
    for i, j in accumulators:
        m = f"wg.y * {c.y1}u + (ty + {i // 4 * (c.y1 // c.y0)}u) * 4u + {i % 4}u"
        n = f"(wg.x * {wide}u + tx + {j * across}u) * 4u"
        for e in range(COLUMNS):
            body += stores.at(m, f"{n} + {e}u", f"c{i}_{j}.{'xyzw'[e]}")
    grid = (-(-matrix.n // c.x1), -(-source.rows // c.y1), 1)
    return shader.dispatch(threads, grid, body)


def _check(matrix: Matrix4, c: GpuCandidate) -> None:
    wrong = ""
    if matrix.n % COLUMNS or matrix.k % matrix.block or matrix.block % WORD:
        wrong = "columns or depth are not in whole vectors and blocks"
    elif c.x0 % COLUMNS or c.y0 % 4 or c.x1 % c.x0 or c.y1 % c.y0:
        wrong = "x0 and y0 must be multiples of 4 that divide x1 and y1"
    elif c.r1 % WORD or matrix.block % c.r1 or c.r0 != 1 or c.split != 1:
        wrong = f"r1 must be a part of the block of {matrix.block} in words, r0 and split 1"
    if wrong:
        raise CompileError(f"{c} does not fit: {wrong}.", "Choose another candidate.")


def _fetch_rows(source: Plain, c: GpuCandidate, depth: int, high: int) -> list[str]:
    """Four rows of four steps of k at a time, transposed in registers."""
    stride, last = (source.stride or source.k) // 4, source.rows - 1
    lines = [
        f"for (var t = li; t < {high * depth // 4}u; t += {c.threads}u) {{",
        f"  let k = t % {depth // 4}u;",
        f"  let row = t / {depth // 4}u;",
        f"  let m = wg.y * {c.y1}u + row * 4u;",
        f"  let at = step * {depth // 4}u + k + {source.offset // 4}u;",
    ]
    for e in range(4):
        lines.append(f"  let r{e} = source[min(m + {e}u, {last}u) * {stride}u + at];")
    for e, part in enumerate("xyzw"):
        values = ", ".join(f"r{i}.{part}" for i in range(4))
        lines.append(f"  rows[(k * 4u + {e}u) * {high + 1}u + row] = vec4<f32>({values});")
    return [*lines, "}"]


def _fetch_tile(
    matrix: Matrix4, c: GpuCandidate, words: int, columns: int, stride: int, wide: int
) -> list[str]:
    """Each thread decodes words of four columns, eight steps of k."""
    scale = "scales[at]"
    if matrix.half_scales:
        scale = "vec4<f32>(unpack2x16float(scales[at].x), unpack2x16float(scales[at].y))"
    lines = [
        f"for (var t = li; t < {words * wide}u; t += {c.threads}u) {{",
        f"  let column = min(wg.x * {wide}u + t % {wide}u, {columns - 1}u);",
        f"  let row = t / {wide}u;",
        f"  let w = words[(step * {words}u + row) * {columns}u + column];",
        f"  let at = step / {matrix.block // c.r1}u * {stride}u + column;",
        f"  let scale = {scale};",
    ]
    offset = OFFSETS["bits"]
    zero = f"{offset + matrix.zero}"
    if matrix.zeros:
        zeros = ", ".join(f"(zeros[at] >> {8 * e}u) & 255u" for e in range(COLUMNS))
        lines.append(f"  let zero = vec4<f32>(vec4<u32>({zeros})) + {offset};")
        zero = "zero"
    for value, k in decoded("bits", "w", "")[1]:
        lines.append(
            f"  tile[(row * {WORD}u + {k}u) * {wide}u + t % {wide}u] = ({value} - {zero}) * scale;"
        )
    return [*lines, "}"]
