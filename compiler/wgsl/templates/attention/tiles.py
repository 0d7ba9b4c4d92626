"""Attention of many queries in one kernel: tiles of K and V with an online softmax.

After FlashAttention (Dao et al., 2022) and the online softmax (Milakov and Gimelshein, 2018).
A workgroup takes ``y1`` queries of one head and walks over the keys, ``x1`` at a time. A thread
keeps scores of ``y0`` queries by ``x0`` keys, then their share of the results: ``y0`` rows, and as
many columns as all threads of a row leave it. K and V lie one after the other in the same
workgroup memory; while one is used, the other is on its way in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.attention import Attention
from nnjit_studio.compiler.wgsl.core.document import KernelDocument, Shader
from nnjit_studio.compiler.wgsl.core.finish import Finish
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times, vector
from nnjit_studio.compiler.wgsl.templates.attention.rows import (
    LOWEST,
    Rows,
    Score,
    batch_lines,
    declare_end,
    key_lines,
    part_vectors,
    result_factor,
    rows_of,
    with_combine,
)
from nnjit_studio.compiler.wgsl.templates.attention.walk import Walk
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.attention import QUAD, AttentionTile


def tiles_document(
    program: Program, a: Attention, candidate: GpuCandidate, kind: type[Tiles]
) -> KernelDocument:
    """The document of many queries; with ``split`` above 1 a second dispatch joins the parts."""
    tile, (q, k, v) = AttentionTile(a.depth, candidate), rows_of(a, candidate.vec)
    lines = key_lines(a, candidate.vec)
    rows = (q, lines if lines.vectors else k, v)
    made = kind(a, candidate, tile, rows[1], v, lines.vectors, q, Score(program, a, QUAD))
    shader = Shader()
    finish = Finish(program, a.values, QUAD)
    for side in rows:
        side.bind(shader, finish.argument(side.buffer))
    made.declare(shader)
    declare_end(shader, finish, candidate.split)
    t = made.tile
    shader.workgroup("kv", f"array<vec4<f32>, {t.kv_vectors}>")
    shader.workgroup("queries", f"array<vec4<f32>, {t.query_vectors}>")
    shader.workgroup("weights", f"array<vec4<f32>, {t.weight_vectors}>")
    shader.workgroup("tops", f"array<{vector(t.top_width)}, {t.top_vectors}>")
    workgroups = (-(-a.queries // candidate.y1), 1, a.batch * candidate.split)
    main = shader.dispatch(candidate.threads, workgroups, made.body(finish))
    return with_combine(program, a, candidate.split, main)


@dataclass(frozen=True)
class Tiles(Walk):
    """The lines of one kernel."""

    q: Rows
    score: Score

    def declare(self, shader: Shader) -> None:
        """Functions of the module."""
        self.score.declare(shader)

    def body(self, finish: Finish) -> list[str]:
        c, t = self.c, self.tile
        begin = "first" if c.split > 1 else "0u"
        return [
            *([f"let part = wg.z / {self.a.batch}u;"] if c.split > 1 else []),
            f"let batch = wg.z % {self.a.batch}u;",
            *batch_lines(self.a),
            f"let tx = li % {t.across}u;",
            f"let ty = li / {t.across}u;",
            f"let query = wg.x * {c.y1}u;",
            *([f"let first = part * {self.steps}u;"] if c.split > 1 else []),
            *self._queries(),
            *(f"var top{r} = {LOWEST};" for r in range(c.y0)),
            *(f"var total{r} = 0.0;" for r in range(c.y0)),
            *(f"var sum{r}_{i} = vec4<f32>();" for r in range(c.y0) for i in range(t.columns)),
            *(f"var next{u} = vec4<f32>();" for u in range(self.ahead_vectors) if t.ahead),
            *(self.fetch(self.k, begin) if t.ahead else []),
            *self.first_walk(),
            f"for (var step = 0u; step < {self.steps}u; step++) {{",
            *indented(self._step()),
            "}",
            *self.totals(),
            *(self._keep() if c.split > 1 else self._finished(finish)),
        ]

    def _queries(self) -> list[str]:
        """All queries of the workgroup, once."""
        c, t = self.c, self.tile
        count = c.y1 * t.quads
        row = f"min({plus('query', 'row')}, {self.a.queries - 1}u)"
        if self.a.queries % c.y1 == 0:
            row = "(query + row)"
        load = [
            f"let row = at / {t.quads}u;",
            f"let quad = at % {t.quads}u;",
            f"queries[row * {t.pitch}u + quad] = {self.q.quad(row, 'quad')};",
        ]
        turns = -(-count // c.threads)
        inner = [f"let at = li + turn * {c.threads}u;"]
        guarded = turns * c.threads > count
        inner += [f"if (at < {count}u) {{", *indented(load), "}"] if guarded else load
        return [f"for (var turn = 0u; turn < {turns}u; turn++) {{", *indented(inner), "}"]

    def first_walk(self) -> list[str]:
        """What is done before the walk over K and V."""
        return []

    def _step(self) -> list[str]:
        c, t = self.c, self.tile
        tile = "first + step" if c.split > 1 else "step"
        tile = f"({tile})" if c.split > 1 else tile
        later = f"min(step + 1u, {self.steps - 1}u)"
        if c.split > 1:
            later = f"(first + {later})"
        return [
            "workgroupBarrier();",
            *self.store(self.k, tile),
            "workgroupBarrier();",
            *(self.fetch(self.v, tile) if t.ahead else []),
            *self.scores(tile),
            *self.largest(),
            "workgroupBarrier();",
            *self.store(self.v, tile),
            *(self.fetch(self.k, later) if t.ahead else []),
            *self.weights(),
            "workgroupBarrier();",
            *self._sums(),
        ]

    def scores(self, tile: str) -> list[str]:
        """``s<row>_<quad>`` as they are raised."""
        return [*self._dots(), *self._scored(tile)]

    def _dots(self) -> list[str]:
        """``s<row>_<quad>``: four neighbouring keys each."""
        c, t = self.c, self.tile
        lines = [
            f"var s{r}_{j}{e} = 0.0;"
            for r in range(c.y0)
            for j in range(t.key_quads)
            for e in "xyzw"
        ]
        inner = []
        for j in range(t.key_quads):
            for e, lane in enumerate("xyzw"):
                row = plus("tx", str(e * (c.x1 // QUAD) + j * t.across))
                inner.append(f"let k{j}{lane} = kv[{times(f'({row})', t.pitch)} + d];")
        for r in range(c.y0):
            row = plus(times("ty", c.y0), str(r))
            inner.append(f"let q{r} = queries[{times(f'({row})', t.pitch)} + d];")
        for lane in "xyzw":
            for r in range(c.y0):
                for j in range(t.key_quads):
                    for key in "xyzw":
                        name = f"s{r}_{j}{key}"
                        inner.append(f"{name} = fma(q{r}.{lane}, k{j}{key}.{lane}, {name});")
        loop = [f"for (var d = 0u; d < {t.quads}u; d++) {{", *indented(inner), "}"]
        return [*lines, *loop]

    def _scored(self, tile: str) -> list[str]:
        """What is raised, and whether its key is there."""
        c, t = self.c, self.tile
        lines = []
        for j in range(t.key_quads):
            place = times(f"({plus('tx', str(j * t.across))})", QUAD)
            lines.append(f"let n{j} = {plus(times(tile, c.x1), place)};")
            if self.ragged:
                lines.append(
                    f"let there{j} = vec4<u32>(n{j}) + vec4<u32>(0u, 1u, 2u, 3u) "
                    f"< vec4<u32>({self.a.keys}u);"
                )
        for r in range(c.y0):
            m = plus("query", times("ty", c.y0), str(r))
            if self.a.queries % c.y1:
                m = f"min({m}, {self.a.queries - 1}u)"
            for j in range(t.key_quads):
                given = f"vec4<f32>({', '.join(f's{r}_{j}{e}' for e in 'xyzw')})"
                lines.append(f"let s{r}_{j} = {self.score.call(m, f'n{j}', given)};")
        return lines

    def largest(self) -> list[str]:
        """Each thread's largest score of each row, for all threads of the row."""
        c, t = self.c, self.tile
        lines = []
        for r in range(c.y0):
            parts = []
            for j in range(t.key_quads):
                value = f"s{r}_{j}"
                if self.ragged:
                    value = f"select(vec4<f32>({LOWEST}), {value}, there{j})"
                parts.append(value)
            lines.append(f"let most{r} = {_nested('max', parts)};")
            lines.append(
                f"let mine{r} = max(max(most{r}.x, most{r}.y), max(most{r}.z, most{r}.w));"
            )
        return [*lines, *self._publish("mine")]

    def _publish(self, name: str) -> list[str]:
        t = self.tile
        lines = []
        for g in range(t.top_groups):
            values = ", ".join(f"{name}{g * t.top_width + i}" for i in range(t.top_width))
            place = plus(times("li", t.top_groups), str(g))
            lines.append(f"tops[{place}] = {vector(t.top_width)}({values});")
        return lines

    def _gather(self, op: str) -> list[str]:
        """``all<group>``: what all threads of a row published, joined."""
        t = self.tile
        lines = []
        for g in range(t.top_groups):
            start = LOWEST if op == "max" else "0.0"
            lines.append(f"var all{g} = {vector(t.top_width)}({start});")
        inner = []
        for g in range(t.top_groups):
            place = plus(times(f"(ty * {t.across}u + i)", t.top_groups), str(g))
            value = f"tops[{place}]"
            inner.append(
                f"all{g} = max(all{g}, {value});" if op == "max" else f"all{g} += {value};"
            )
        loop = [f"for (var i = 0u; i < {t.across}u; i++) {{", *indented(inner), "}"]
        return [*lines, *loop]

    def of_row(self, r: int) -> str:
        t = self.tile
        lane = f".{'xyzw'[r % t.top_width]}" if t.top_width > 1 else ""
        return f"all{r // t.top_width}{lane}"

    def weight_place(self, r: int, j: int) -> str:
        row = times(f"({plus(times('ty', self.c.y0), str(r))})", self.tile.weight_pitch)
        return f"weights[{plus(row, 'tx', str(j * self.tile.across))}]"

    def weights(self, kept: bool = True) -> list[str]:
        """What is raised, added to ``total``, and where it is kept put beside V."""
        c, t = self.c, self.tile
        lines = self._gather("max")
        for r in range(c.y0):
            lines += [
                f"let higher{r} = max(top{r}, {self.of_row(r)});",
                f"let shrink{r} = exp(top{r} - higher{r});",
                f"top{r} = higher{r};",
            ]
            added = []
            for j in range(t.key_quads):
                value = f"exp(s{r}_{j} - vec4<f32>(higher{r}))"
                if self.ragged:
                    value = f"select(vec4<f32>(), {value}, there{j})"
                lines.append(f"let w{r}_{j} = {value};")
                lines += [f"{self.weight_place(r, j)} = w{r}_{j};"] * kept
                added.append(f"w{r}_{j}")
            lines.append(f"let more{r} = {' + '.join(added)};")
            lines.append(
                f"total{r} = fma(total{r}, shrink{r}, "
                f"(more{r}.x + more{r}.y) + (more{r}.z + more{r}.w));"
            )
            lines += [f"sum{r}_{i} *= shrink{r};" for i in range(t.columns) if kept]
        return lines

    def _sums(self) -> list[str]:
        c, t = self.c, self.tile
        inner = []
        for r in range(c.y0):
            row = times(f"({plus(times('ty', c.y0), str(r))})", t.weight_pitch)
            inner.append(f"let p{r} = weights[{row} + k];")
        for e, lane in enumerate("xyzw"):
            for i in range(t.columns):
                row = times(f"(k * 4u + {e}u)", t.quads)
                inner.append(f"let v{e}_{i} = kv[{plus(row, 'tx', str(i * t.across))}];")
            for r in range(c.y0):
                for i in range(t.columns):
                    name = f"sum{r}_{i}"
                    inner.append(f"{name} = fma(vec4<f32>(p{r}.{lane}), v{e}_{i}, {name});")
        return [f"for (var k = 0u; k < {c.x1 // QUAD}u; k++) {{", *indented(inner), "}"]

    def factor(self, r: int) -> str:
        """What turns a row's weighted sum into its result."""
        return result_factor(self.a, self.of_row(r))

    def totals(self) -> list[str]:
        """``all<group>``: the weights of each row."""
        return ["workgroupBarrier();", *self._publish("total"), "workgroupBarrier();",
                *self._gather("add")]  # fmt: skip

    def _rows(self, lines: dict[int, list[str]]) -> list[str]:
        """Lines for each row of the thread, where there is such a query."""
        found = []
        for r, mine in lines.items():
            m = plus("query", times("ty", self.c.y0), str(r))
            if self.a.queries % self.c.y1:
                found += [f"if ({m} < {self.a.queries}u) {{", *indented(mine), "}"]
            else:
                found += mine
        return found

    def _finished(self, finish: Finish) -> list[str]:
        t, lines = self.tile, {}
        for r in range(self.c.y0):
            mine = [f"let factor{r} = {self.factor(r)};"]
            for i in range(t.columns):
                n = times(f"({plus('tx', str(i * t.across))})", QUAD)
                m = plus("query", times("ty", self.c.y0), str(r))
                mine += [
                    f"sum{r}_{i} *= factor{r};",
                    *finish.call("finish", m, n, f"sum{r}_{i}"),
                ]
            lines[r] = mine
        return self._rows(lines)

    def _keep(self) -> list[str]:
        """A part's sums, largest scores and weights."""
        t, a, lines = self.tile, self.a, {}
        for r in range(self.c.y0):
            m = plus(times("wg.z", a.queries), "query", times("ty", self.c.y0), str(r))
            mine = [f"let row{r} = {times(f'({m})', part_vectors(a))};"]
            mine += [
                f"parts[{plus(f'row{r}', 'tx', str(i * t.across))}] = sum{r}_{i};"
                for i in range(t.columns)
            ]
            mine += [
                f"if (tx == 0u) {{ parts[{plus(f'row{r}', str(t.quads))}] = "
                f"vec4<f32>(top{r}, {self.of_row(r)}, 0.0, 0.0); }}"
            ]
            lines[r] = mine
        return self._rows(lines)


def _nested(function: str, values: list[str]) -> str:
    found = values[0]
    for value in values[1:]:
        found = f"{function}({found}, {value})"
    return found
