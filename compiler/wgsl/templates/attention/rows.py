"""Parts of both attention kernels: rows of Q, K and V, the epilogue of scores, and splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import affine, loads, stride
from nnjit_studio.compiler.ir.rewrite import substitute
from nnjit_studio.compiler.ir.tensor_ir import Expr, Program, Var
from nnjit_studio.compiler.recognize.attention import Attention
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Contraction
from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument, Shader
from nnjit_studio.compiler.wgsl.core.finish import SCRATCH, Finish
from nnjit_studio.compiler.wgsl.core.functions import used_functions
from nnjit_studio.compiler.wgsl.core.lanes import Lanes, NoLanesError
from nnjit_studio.compiler.wgsl.core.memory import memories
from nnjit_studio.compiler.wgsl.core.operand import Side, sides
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times, vector
from nnjit_studio.compiler.wgsl.core.values import Block, Context, identifier
from nnjit_studio.space.webgpu.attention import QUAD

LOWEST = "-3.4028234663852886e+38"
"""Where the search for the largest score begins, as in the softmax itself."""
_PREFIX = "s_"
_COMBINE_THREADS = 64


@dataclass(frozen=True)
class Rows:
    """Q, K or V in global memory: ``count`` rows, read in quads along the head."""

    side: Side
    base: str
    across: int
    """Stride from row to row, in elements."""
    along: int
    """Stride along the head, in elements."""
    count: int
    vectors: bool
    """Whether a quad is one load."""

    @property
    def name(self) -> str:
        return self.side.name

    @property
    def buffer(self) -> str:
        return self.side.buffer

    def bind(self, shader: Shader, argument: str) -> None:
        self.side.bind(shader, argument, QUAD if self.vectors else 1)

    def quad(self, row: str, quad: str) -> str:
        """Four neighbours of a row that is there; both numbers are terms or in brackets."""
        unit = QUAD if self.vectors else 1
        place = plus(
            self.base, times(row, self.across // unit), times(quad, QUAD * self.along // unit)
        )
        if self.vectors:
            return self.side.element(place)
        lanes = (self.side.element(plus(place, str(e * self.along))) for e in range(QUAD))
        return f"vec4<f32>({', '.join(lanes)})"


def key_lines(a: Attention, vec: int) -> Rows:
    """K of keys that lie side by side, as one row for each element of the head."""
    side = sides(a.scores)[1]
    vec = vec if a.keys % QUAD == 0 else 1
    return _rows("K", side, side.along, side.across, a.depth, _PREFIX, vec)


def rows_of(a: Attention, vec: int) -> tuple[Rows, Rows, Rows]:
    """Q, K and V; ``vec`` limits their loads."""
    q, k = sides(a.scores)
    v = sides(a.values)[1]
    return (
        _rows("Q", q, q.across, q.along, a.queries, _PREFIX, vec),
        _rows("K", k, k.across, k.along, a.keys, _PREFIX, vec),
        _rows("V", v, v.along, v.across, a.keys, "", vec),
    )


def _rows(
    name: str, side: Side, across: int, along: int, count: int, prefix: str, vec: int
) -> Rows:
    numbers = (side.offset, across, *(step for _, step in side.batch))
    vectors = vec == QUAD and along == 1 and all(number % QUAD == 0 for number in numbers)
    unit = QUAD if vectors else 1
    terms = (times(prefix + var, step // unit) for var, step in side.batch)
    base = plus(*terms, str(side.offset // unit))
    return Rows(replace(side, name=name), base, across, along, count, vectors)


def batch_lines(a: Attention) -> list[str]:
    """The batch axes of both products, from ``batch``; those of the scores with a prefix."""

    def axes(c: Contraction, steps: Sequence[int], prefix: str) -> list[str]:
        return [
            f"let {prefix}{axis.var} = batch / {step}u % {axis.extent}u;"
            for axis, step in zip(c.batch, steps, strict=True)
        ]

    return [*axes(a.scores, a.score_steps, _PREFIX), *axes(a.values, a.value_steps, "")]


class Score:
    """The function ``score``: what is raised, from sums at one query and ``width`` keys.

    Parameters
    ----------
    width
        Neighbouring keys, the first a multiple of it; 1 or 4.
    """

    def __init__(self, program: Program, a: Attention, width: int) -> None:
        self.program, self.a, self.width = program, a, width
        names = {b.name: f"mask{i}" for i, b in enumerate(program.buffers)}
        self._memory = memories(program.buffers, (), names)
        self._read = {load.buffer for load in loads(a.score)}
        self._wide = frozenset(name for name in self._read if self._is_wide(name))
        self._by_lane = width == 1

    def declare(self, shader: Shader) -> None:
        """Bind what is read, and add the function."""
        lines: list[str] = []
        if not self._by_lane:
            try:
                lines = self._vector()
            except NoLanesError:
                self._by_lane, self._wide = True, frozenset()
        for i, buffer in enumerate(self.program.buffers):
            if buffer.name in self._read:
                memory = self._memory[buffer.name]
                kind = vector(QUAD) if buffer.name in self._wide else memory.element
                shader.bind(f"a{i}", memory.name, f"array<{kind}>")
        if self._by_lane:
            one = "score" if self.width == 1 else "score_of_one"
            self._function(shader, one, 1, self._single())
        if self.width > 1:
            if self._by_lane:
                axes = "".join(f"{axis.var}, " for axis in self.a.scores.batch)
                each = (
                    f"score_of_one({axes}m, {plus('n', str(e))}, sum.{'xyzw'[e]})"
                    for e in range(self.width)
                )
                lines = [f"return {vector(self.width)}({', '.join(each)});"]
            self._function(shader, "score", self.width, lines)

    def call(self, m: str, n: str, value: str) -> str:
        axes = "".join(f"{_PREFIX}{axis.var}, " for axis in self.a.scores.batch)
        return f"score({axes}{m}, {n}, {value})"

    def _vector(self) -> list[str]:
        names = {name: memory.name for name, memory in self._memory.items()}
        lanes = Lanes(self.program, names, self._wide, self.width, self.a.scores.n_var)
        value = lanes.value(self.a.score)
        return [*lanes.lines, f"return {value};"]

    def _single(self) -> list[str]:
        c = self.a.scores
        axes = {axis.var: axis.extent for axis in c.batch} | {c.m_var: c.m, c.n_var: c.n}
        ranges = {var: (0, extent - 1) for var, extent in axes.items()}
        block = Block(Context(self._memory, ranges, {"sum": "f32"}))
        block.lines += [f"let {identifier(var)} = i32({var});" for var in axes]
        expr = substitute(self.a.score, {ACCUMULATOR: Var("sum")})
        block.expect([expr])
        return [*block.lines, *_returned(block, expr)]

    def _function(self, shader: Shader, name: str, width: int, lines: list[str]) -> None:
        axes = "".join(f"{axis.var}: u32, " for axis in self.a.scores.batch)
        kind = vector(width)
        head = f"fn {name}({axes}m: u32, n: u32, sum: {kind}) -> {kind} {{"
        text = "\n".join([head, *indented(lines), "}"])
        if needed := used_functions(text):
            shader.line(needed.rstrip("\n"))
        shader.line(text)

    def _is_wide(self, name: str) -> bool:
        """Whether every read is of aligned neighbours, all of which are there."""
        column = self.a.scores.n_var
        if self.width == 1 or self.a.keys % self.width or self.program.buffer(name).dtype != "f32":
            return False
        for load in loads(self.a.score):
            if load.buffer != name:
                continue
            form = affine(load.index)
            others = [factor for atom, factor in form.terms if atom != column]
            if dict(form.terms).get(column) != 1 or stride(load.index, column) != 1:
                return False
            if any(number % self.width for number in (form.constant, *others)):
                return False
        return True


def _returned(block: Block, expr: Expr) -> list[str]:
    before = len(block.lines)
    value = block.typed(expr, "f32")
    return [*block.lines[before:], f"return {value};"]


def result_factor(a: Attention, total: str) -> str:
    """What turns a weighted sum into the mean, from the sum of all weights."""
    if a.guarded:
        return f"select(0.0, 1.0 / {total}, {total} > 0.0)"
    return f"1.0 / {total}"


def part_vectors(a: Attention) -> int:
    """Of one row in the scratch buffer: the weighted sum; the largest score and the weights."""
    return a.depth // QUAD + 1


def scratch_bytes(a: Attention, parts: int) -> int:
    """Of all rows of all parts."""
    return 16 * parts * a.batch * a.queries * part_vectors(a)


def declare_end(shader: Shader, finish: Finish, parts: int) -> None:
    """Where a kernel's results go: to scratch for :func:`combine`, or out at once."""
    if parts > 1:
        shader.bind(SCRATCH, "parts", "array<vec4<f32>>", "read_write")
    else:
        finish.declare(shader, [])


def with_combine(program: Program, a: Attention, parts: int, main: Dispatch) -> KernelDocument:
    """The document of a kernel, and of what joins its parts where there are some."""
    if parts == 1:
        return KernelDocument((main,))
    return KernelDocument((main, combine(program, a, parts)), (scratch_bytes(a, parts),))


def combine(program: Program, a: Attention, parts: int) -> Dispatch:
    """The second dispatch where keys are read in parts: joins them by their largest scores."""
    finish = Finish(program, a.values, QUAD)
    shader = Shader()
    shader.bind(SCRATCH, "parts", "array<vec4<f32>>", "read_write")
    finish.declare(shader, [])
    across, vectors = a.depth // QUAD, part_vectors(a)
    rows = a.batch * a.queries
    count = rows * across
    step = rows * vectors
    ends = [plus(times("row", vectors), str(part * step + vectors - 1)) for part in range(parts)]
    body = [
        f"let at = wg.x * {_COMBINE_THREADS}u + li;",
        f"if (at >= {count}u) {{ return; }}",
        f"let row = at / {across}u;",
        f"let quad = at % {across}u;",
        f"let batch = row / {a.queries}u;",
        f"let m = row % {a.queries}u;",
        *batch_lines(a),
        *(f"let end{part} = parts[{end}];" for part, end in enumerate(ends)),
        "var top = end0.x;",
        *(f"top = max(top, end{part}.x);" for part in range(1, parts)),
        "var total = 0.0;",
        "var sum = vec4<f32>();",
    ]
    for part in range(parts):
        place = plus(times("row", vectors), "quad", str(part * step))
        body += [
            f"let share{part} = exp(end{part}.x - top);",
            f"total += end{part}.y * share{part};",
            f"sum += parts[{place}] * share{part};",
        ]
    body += [
        f"sum *= {result_factor(a, 'total')};",
        *finish.call("finish", "m", "quad * 4u", "sum"),
    ]
    return shader.dispatch(_COMBINE_THREADS, (-(-count // _COMBINE_THREADS), 1, 1), body)
