"""Few rows times a matrix, in WGSL: B is read once, by as many threads as fit.

A workgroup makes ``x1`` columns. Its threads stand in ``x1 / x0`` columns by
``r1 / r0`` slices of the reduction, and each keeps all rows of its ``x0``
columns. Neighbouring threads read neighbouring elements of B: neighbouring
columns where the rows of B run along n, neighbouring slices where they run
along k. In the end the slices are added in workgroup memory, row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.wgsl.core.operand import Side, sides
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times, vector
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.usage import WIDTH


@dataclass(frozen=True)
class Matvec:
    """Sizes that follow from a contraction and a candidate."""

    c: Contraction
    a: Side
    b: Side
    columns: int
    """Of a thread: ``x0``, or the largest power of two below that divides N."""
    unroll: int
    """Of a thread: ``r0``, or the largest power of two below that divides K."""
    across: int
    """Threads of a workgroup along n."""
    slices: int
    """Threads of a workgroup along k."""
    along_k: bool
    """Whether the rows of B run along k."""
    load_a: int
    load_b: int
    parts: int
    """Of the reduction, each a workgroup."""
    part_depth: int
    """Elements of one part."""

    @property
    def threads(self) -> int:
        return self.across * self.slices

    @property
    def workgroups(self) -> tuple[int, int, int]:
        return -(-self.c.n // (self.columns * self.across)), 1, self.c.batches * self.parts

    @property
    def guarded(self) -> bool:
        """Whether some threads stand behind the last column."""
        return self.c.n % (self.columns * self.across) > 0


def matvec_of(c: Contraction, candidate: GpuCandidate) -> Matvec:
    """The sizes of a candidate."""
    a, b = sides(c)
    along_k = b.along == 1 and b.across != 1
    columns = math.gcd(candidate.x0, c.n, WIDTH)
    unroll = math.gcd(candidate.r0, c.k)
    if along_k:
        load_b = b.widest(min(candidate.vec, unroll), along=True)
    else:
        load_b = columns = b.widest(min(candidate.vec, columns), along=False)
    load_a = a.widest(min(WIDTH, candidate.vec, unroll), along=True)
    depth = -(-c.k // unroll // candidate.split) * unroll
    return Matvec(
        c,
        a,
        b,
        columns,
        unroll,
        candidate.x1 // candidate.x0,
        candidate.r1 // candidate.r0,
        along_k,
        load_a,
        load_b,
        -(-c.k // depth),
        depth,
    )


End = Callable[[int], list[str]]
"""Lines that hand on the finished sums ``c<m>`` of row m, at the columns from ``n`` on."""


def matvec_body(plan: Matvec, end: End) -> list[str]:
    """The kernel's lines behind its part and batch axes."""
    c, columns = plan.c, plan.columns
    if plan.along_k:
        place = [f"let slice = li % {plan.slices}u;", f"let tx = li / {plan.slices}u;"]
    else:
        place = [f"let slice = li / {plan.across}u;", f"let tx = li % {plan.across}u;"]
    n = times(f"(wg.x * {plan.across}u + tx)", columns)
    begin = times("part", plan.part_depth) if plan.parts > 1 else "0u"
    behind = f"{c.k}u"
    if plan.parts > 1:
        behind = plus(begin, str(plan.part_depth))
        if c.k % plan.part_depth:
            behind = f"min({behind}, {c.k}u)"
    step = plan.slices * plan.unroll
    start = plus(begin, times("slice", plan.unroll))
    return [
        *place,
        f"let n = {n};",
        f"let column = {f'min(n, {c.n - columns}u)' if plan.guarded else 'n'};",
        f"let beginA = {_base(plan.a, plan.load_a)};",
        f"let beginB = {_base(plan.b, plan.load_b)};",
        *(f"var c{m} = {vector(columns)}();" for m in range(c.m)),
        f"for (var k = {start}; k < {behind}; k += {step}u) {{",
        *indented([*_load_a(plan), *(_dots(plan) if plan.along_k else _outer(plan))]),
        "}",
        *_gather(plan, end),
    ]


def _base(side: Side, load: int) -> str:
    return plus(
        *(times(var, stride // load) for var, stride in side.batch), str(side.offset // load)
    )


def _load_a(plan: Matvec) -> list[str]:
    """The rows' elements at ``unroll`` steps from k on: ``a0_0`` is row 0, step 0."""
    side, load, lines = plan.a, plan.load_a, []
    k = "k" if load == 1 else f"k / {load}u"
    for m in range(plan.c.m):
        for e in range(0, plan.unroll, load):
            row = str(m * side.across // load)
            index = plus("beginA", times(k, side.along), row, str(e * side.along // load))
            lines.append(f"let a{m}_{e} = {side.element(index)};")
    return lines


def _element(plan: Matvec, m: int, e: int) -> str:
    """Row ``m`` at step ``e``."""
    lane = e % plan.load_a
    return f"a{m}_{e - lane}" + (f".{'xyzw'[lane]}" if plan.load_a > 1 else "")


def _outer(plan: Matvec) -> list[str]:
    side, load, lines = plan.b, plan.load_b, []
    column = times("column" if load == 1 else f"column / {load}u", side.across)
    for e in range(plan.unroll):
        row = plus(times("k", side.along // load), str(e * side.along // load))
        lines.append(f"let x{e} = {side.element(plus('beginB', row, column))};")
    for e in range(plan.unroll):
        for m in range(plan.c.m):
            factor = _element(plan, m, e)
            if plan.columns > 1:
                factor = f"{vector(plan.columns)}({factor})"
            lines.append(f"c{m} = fma({factor}, x{e}, c{m});")
    return lines


def _dots(plan: Matvec) -> list[str]:
    side, load, lines = plan.b, plan.load_b, []
    k = "k" if load == 1 else f"k / {load}u"
    for j in range(plan.columns):
        for e in range(0, plan.unroll, load):
            row = plus(times("column", side.across // load), str(j * side.across // load))
            index = plus("beginB", row, k, str(e // load))
            lines.append(f"let x{j}_{e} = {side.element(index)};")
    for m in range(plan.c.m):
        sums = []
        for j in range(plan.columns):
            parts = []
            for e in range(0, plan.unroll, load):
                a = [_element(plan, m, e + lane) for lane in range(load)]
                whole = load > 1 and plan.load_a == load
                left = f"a{m}_{e}" if whole else f"{vector(load)}({', '.join(a)})"
                parts.append(f"dot({left}, x{j}_{e})" if load > 1 else f"{a[0]} * x{j}_{e}")
            sums.append(" + ".join(parts))
        value = sums[0] if len(sums) == 1 else f"{vector(plan.columns)}({', '.join(sums)})"
        lines.append(f"c{m} += {value};")
    return lines


def _gather(plan: Matvec, end: End) -> list[str]:
    """Adds the slices of each row; threads of slice 0 end with the sums."""
    if plan.slices == 1:
        return [line for m in range(plan.c.m) for line in end(m)]
    lines = []
    half = 1 << (plan.slices - 1).bit_length() - 1
    for m in range(plan.c.m):
        lines += ["workgroupBarrier();"] if m else []
        lines += [
            f"slices[li] = c{m};",
            "workgroupBarrier();",
            f"for (var half = {half}u; half > 0u; half /= 2u) {{",
            "  if (slice < half) {",
            f"    slices[li] += slices[li + {times('half', 1 if plan.along_k else plan.across)}];",
            "  }",
            "  workgroupBarrier();",
            "}",
            "if (slice == 0u) {",
            f"  c{m} = slices[li];",
            *indented(end(m)),
            "}",
        ]
    return lines
