"""Products in WGSL: from the recognised contraction and a candidate to a kernel document."""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument, Shader
from nnjit_studio.compiler.wgsl.core.finish import SCRATCH, Finish
from nnjit_studio.compiler.wgsl.core.operand import Fetch, fetch_of, sides
from nnjit_studio.compiler.wgsl.core.syntax import plus, times, vector
from nnjit_studio.compiler.wgsl.templates.matmul_tiled import (
    FLOATS,
    Arithmetic,
    accumulators,
    grid_of,
    reduction,
    thread_place,
    where,
)
from nnjit_studio.compiler.wgsl.templates.matvec import matvec_body, matvec_of
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import DEFAULT_LIMITS
from nnjit_studio.space.webgpu.matmul import untuned
from nnjit_studio.space.webgpu.usage import (
    ELEMENT_BYTES,
    MATVEC_ROWS,
    WIDTH,
    matvec_threads,
    stages,
    tile_width,
)

MAX_THREADS = 1024
"""Threads of a workgroup on any device; the lite space stays at Heuristic 5's 256."""
MOST_BINDINGS = DEFAULT_LIMITS["maxStorageBuffersPerShaderStage"]
_LARGEST_GRID = DEFAULT_LIMITS["maxComputeWorkgroupsPerDimension"]
_ADD_THREADS = 64
SIGNS = 0x80808080
"""The highest bit of each byte of a word: flipped, unsigned bytes are signed ones and 128 less."""


def matmul_document(
    program: Program, c: Contraction, candidate: GpuCandidate, tier: str
) -> KernelDocument:
    """The document of a product of float32 matrices.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    return (few_rows if is_matvec(c) else tiled)(program, c, candidate)


def is_matvec(c: Contraction) -> bool:
    """Whether a product has so few rows that B is read once."""
    return c.m <= MATVEC_ROWS


def guess(c: Contraction) -> GpuCandidate:
    """Settings for a product that nobody tuned, good for any device."""
    return untuned(c.batches, c.m, c.k, c.n, c.b.column != 1 and c.b.row == 1)


def few_rows(program: Program, c: Contraction, candidate: GpuCandidate) -> KernelDocument:
    """A product of few rows; with ``split`` above 1 a second dispatch adds the parts.

    Raises
    ------
    CompileError
        When the candidate does not fit this contraction or any device.
    """
    check_threads(candidate, matvec_threads(candidate))
    plan = matvec_of(c, candidate)
    if plan.slices & (plan.slices - 1):
        raise CompileError(
            f"{plan.slices} slices of the reduction (r1 / r0) cannot be added in halves.",
            "Use a power of two.",
        )
    finish = Finish(program, c, plan.columns)
    shader = Shader()
    for side, load in ((plan.a, plan.load_a), (plan.b, plan.load_b)):
        side.bind(shader, finish.argument(side.buffer), load)
    guards = [f"n >= {c.n}u"] * plan.guarded
    function = "keep" if plan.parts > 1 else "finish"
    if plan.parts > 1:
        finish.declare_keep(shader, guards)
    else:
        finish.declare(shader, guards)
    if plan.slices > 1:
        shader.workgroup("slices", f"array<{vector(plan.columns)}, {plan.threads}>")
    body = [
        *part_and_batch(c, plan.parts),
        *matvec_body(plan, lambda m: finish.call(function, f"{m}u", "n", f"c{m}")),
    ]
    _check_grid(plan.workgroups)
    check_bindings(shader)
    main = shader.dispatch(plan.threads, plan.workgroups, body)
    if plan.parts == 1:
        return KernelDocument((main,))
    nbytes = plan.parts * c.batches * c.m * c.n * ELEMENT_BYTES
    return KernelDocument((main, add_parts(program, c, plan.parts)), (nbytes,))


def tiled(
    program: Program,
    c: Contraction,
    candidate: GpuCandidate,
    patches: Fetch | None = None,
    arithmetic: Arithmetic = FLOATS,
) -> KernelDocument:
    """A product by tiles; with ``split`` above 1 a second dispatch adds the parts.

    Parameters
    ----------
    patches
        How B is fetched where it is no matrix.
    arithmetic
        Of words of four bytes ``c`` counts the words.

    Raises
    ------
    CompileError
        When the candidate does not fit this contraction or any device.
    """
    _check(candidate)
    grid = grid_of(c.m, c.n, c.k, c.batches, candidate)
    of_a, of_b = (replace(side, scalar=arithmetic.scalar) for side in sides(c))
    if arithmetic.excess:
        of_a = replace(of_a, flips=SIGNS)
    a = fetch_of(of_a, candidate.y1, candidate.y0, candidate)
    b = patches or fetch_of(of_b, candidate.x1, candidate.x0, candidate)
    finish = Finish(program, c, b.width, b.lane_step, arithmetic.total)
    shader = Shader()
    for fetch in (a, b):
        fetch.bind(shader, finish.argument)
    if arithmetic.dot:
        shader.line(arithmetic.dot)
    guards = [f"m >= {c.m}u"] * bool(c.m % candidate.y1) + [f"n >= {c.n}u"] * bool(
        c.n % candidate.x1
    )
    if grid.parts > 1:
        finish.declare_keep(shader, guards)
    else:
        finish.declare(shader, guards)
    for fetch in (a, b):
        kind, count = fetch.side.vector(fetch.width), fetch.size * stages(candidate, c.k)
        shader.workgroup(f"tile{fetch.side.name}", f"array<{kind}, {count}>")
    body = [
        *where(grid),
        *part_and_batch(c, grid.parts),
        *thread_place(candidate),
        *a.places("row"),
        *b.places("column"),
        *reduction(candidate, a, b, grid, arithmetic),
        *_results(candidate, a, b, finish, "keep" if grid.parts > 1 else "finish"),
    ]
    workgroups = (grid.columns, grid.rows, grid.batches * grid.parts)
    _check_grid(workgroups)
    check_bindings(shader)
    main = shader.dispatch(candidate.threads, workgroups, body)
    if grid.parts == 1:
        return KernelDocument((main,))
    nbytes = grid.parts * c.batches * c.m * c.n * ELEMENT_BYTES
    end = add_parts(program, c, grid.parts, arithmetic.total)
    return KernelDocument((main, end), (nbytes,))


def _results(c: GpuCandidate, a: Fetch, b: Fetch, finish: Finish, function: str) -> list[str]:
    """Hands each accumulator to the function that ends the kernel."""
    tx_step, ty_step = c.x1 // c.x0, c.y1 // c.y0
    lines = [
        f"let m = {plus(times('row', c.y1), times('ty', a.vector_step))};",
        f"let n = {plus(times('column', c.x1), times('tx', b.vector_step))};",
    ]
    for i, j in accumulators(c):
        m = plus("m", str(i // a.width * ty_step * a.vector_step + i % a.width * a.lane_step))
        n = plus("n", str(j * tx_step * b.vector_step))
        lines += finish.call(function, m, n, f"c{i}_{j}")
    return lines


def add_parts(program: Program, c: Contraction, parts: int, total: str = "f32") -> Dispatch:
    """The second dispatch of a split reduction: adds the parts and applies the epilogue."""
    width = WIDTH if c.n % WIDTH == 0 else 1
    finish = Finish(program, c, width, total=total)
    shader = Shader()
    shader.bind(SCRATCH, "sums", f"array<{vector(width, total)}>", "read_write")
    finish.declare(shader, [])
    across = c.n // width
    count = c.batches * c.m * across
    grid = folded(-(-count // _ADD_THREADS))
    flat = plus(times("wg.y", grid[0] * _ADD_THREADS), times("wg.x", _ADD_THREADS), "li")
    body = [
        f"let at = {flat};",
        f"if (at >= {count}u) {{ return; }}",
        *batch_axes(c, f"(at / {c.m * across}u)"),
        f"let m = at / {across}u % {c.m}u;",
        f"let n = {times(f'(at % {across}u)', width)};",
        "var sum = sums[at];",
        *(f"sum += sums[{plus('at', str(part * count))}];" for part in range(1, parts)),
        *finish.call("finish", "m", "n", "sum"),
    ]
    return shader.dispatch(_ADD_THREADS, grid, body)


def folded(workgroups: int) -> tuple[int, int, int]:
    """So many workgroups or some more, none of the counts larger than devices allow."""
    x = min(workgroups, _LARGEST_GRID)
    return x, -(-workgroups // x), 1


def _check(candidate: GpuCandidate) -> None:
    check_threads(candidate, candidate.threads)
    for name in ("x0", "y0"):
        own = getattr(candidate, name)
        if own % tile_width(own) or own == 3:
            raise CompileError(
                f"{name}={own} is not made of vectors.", "Use 1, 2 or a multiple of 4."
            )


def check_threads(candidate: GpuCandidate, threads: int) -> None:
    """Refuse workgroups that no device runs."""
    if threads > MAX_THREADS:
        raise CompileError(
            f"The candidate {candidate} has {threads} threads in a workgroup.",
            f"Stay at or below {MAX_THREADS}.",
        )


def _check_grid(workgroups: tuple[int, int, int]) -> None:
    if max(workgroups) > _LARGEST_GRID:
        raise CompileError(
            f"The product needs {'x'.join(map(str, workgroups))} workgroups.",
            f"Each may be at most {_LARGEST_GRID}: choose larger x1 or y1.",
        )


def check_bindings(shader: Shader) -> None:
    """Refuse kernels of more buffers than every device binds at once."""
    if len(shader.bindings) > MOST_BINDINGS:
        raise CompileError(
            f"The kernel needs {len(shader.bindings)} buffers at once.",
            f"Devices need not have more than {MOST_BINDINGS}: use the default schedule.",
        )


def part_and_batch(c: Contraction, parts: int) -> list[str]:
    """The part of the reduction and the batch axes of a workgroup."""
    if parts == 1:
        return batch_axes(c, "wg.z")
    if c.batches == 1:
        return ["let part = wg.z;"]
    return [
        f"let part = wg.z / {c.batches}u;",
        f"let batch = wg.z % {c.batches}u;",
        *batch_axes(c, "batch"),
    ]


def batch_axes(c: Contraction, index: str) -> list[str]:
    """Each batch axis from the flat index of the batch."""
    lines, inner = [], 1
    for axis in reversed(c.batch):
        value = index if inner == 1 else f"{index} / {inner}u"
        if axis is not c.batch[0]:
            value += f" % {axis.extent}u"
        lines.append(f"let {axis.var} = {value};")
        inner *= axis.extent
    return lines
