"""Attention of one query over many keys: the keys are split among workgroups.

The step of a decoder over its cache. Threads side by side read neighbouring quads of a key, so
keys and values are read in whole lines, once. All scores of a part lie in workgroup memory, so
the softmax needs no second walk over the keys; a second dispatch joins the parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.attention import Attention
from nnjit_studio.compiler.wgsl.core.document import KernelDocument, Shader
from nnjit_studio.compiler.wgsl.core.finish import Finish
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times
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
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.attention import QUAD, SHARES, AttentionRow


def row_document(program: Program, a: Attention, candidate: GpuCandidate) -> KernelDocument:
    """The document of one query; with ``split`` above 1 a second dispatch joins the parts."""
    row = AttentionRow(a.depth, a.keys, candidate)
    q, k, v = rows_of(a, candidate.vec)
    if beside := k.along != 1:
        k = key_lines(a, candidate.vec)
    made = _Row(a, candidate, row, q, k, v, Score(program, a, QUAD if beside else 1), beside)
    shader = Shader()
    finish = Finish(program, a.values, QUAD)
    for rows in (made.q, made.k, made.v):
        rows.bind(shader, finish.argument(rows.buffer))
    made.score.declare(shader)
    declare_end(shader, finish, candidate.split)
    shader.workgroup("scores", f"array<f32, {row.part}>")
    dots = f"vec4<f32>, {2 * row.threads}" if beside else f"f32, {row.dots}"
    shader.workgroup("dots", f"array<{dots}>")
    shader.workgroup("shares", f"array<f32, {row.threads}>")
    shader.workgroup("tops", f"array<f32, {SHARES}>")
    shader.workgroup("sums", f"array<vec4<f32>, {row.threads}>")
    workgroups = (candidate.split, a.queries, a.batch)
    main = shader.dispatch(row.threads, workgroups, made.body(finish))
    return with_combine(program, a, candidate.split, main)


@dataclass(frozen=True)
class _Row:
    """The lines of one kernel; ``beside`` where keys lie side by side, not along the head."""

    a: Attention
    c: GpuCandidate
    row: AttentionRow
    q: Rows
    k: Rows
    v: Rows
    score: Score
    beside: bool

    @property
    def ragged(self) -> bool:
        """Whether some parts reach behind the last key."""
        return self.row.part * self.c.split != self.a.keys

    def body(self, finish: Finish) -> list[str]:
        r = self.row
        end = self._keep() if self.c.split > 1 else self._finished(finish)
        return [
            "let batch = wg.z;",
            "let query = wg.y;",
            *batch_lines(self.a),
            f"let begin = wg.x * {r.part}u;",
            f"let lane = li % {r.side}u;",
            f"let row = li / {r.side}u;",
            *(self._scores_beside() if self.beside else self._scores()),
            *self._largest(),
            *self._weights(),
            *self._sums(),
            f"if (li < {r.side}u) {{",
            *indented(end),
            "}",
        ]

    def _there(self, place: str) -> str:
        """The key at a place of the part that is there in any case."""
        key = plus("begin", place)
        return f"min({key}, {self.a.keys - 1}u)" if self.ragged else f"({key})"

    def _place(self, u: int) -> str:
        return plus(times("step", self.c.x1), "row", str(u * self.row.rows))

    def _scores(self) -> list[str]:
        r, c = self.row, self.c
        pitch = r.side + 1
        asked = f"let asked = {self.q.quad('query', 'lane')};"
        inner = [
            f"let key{u} = {self.k.quad(self._there(self._place(u)), 'lane')};" for u in range(c.x0)
        ]
        inner.append(f"let half = step % 2u * {c.x1 * pitch}u;")
        for u in range(c.x0):
            at = plus("half", times(f"({plus('row', str(u * r.rows))})", pitch), "lane")
            inner.append(f"dots[{at}] = dot(asked, key{u});")
        place = plus(times("step", c.x1), "li")
        inner += [
            "workgroupBarrier();",
            f"if (li < {c.x1}u) {{",
            "  var sum = 0.0;",
            f"  for (var i = 0u; i < {r.side}u; i++) {{ sum += dots[half + li * {pitch}u + i]; }}",
            f"  scores[{place}] = {self.score.call('query', self._there(place), 'sum')};",
            "}",
        ]
        loop = f"for (var step = 0u; step < {r.steps}u; step++) {{"
        return [asked, loop, *indented(inner), "}"]

    def _scores_beside(self) -> list[str]:
        """A thread takes four keys and ``x0`` elements of the head; slices of it are added."""
        r, c, n = self.row, self.c, self.a.keys
        across = c.x1 // QUAD
        elements = [plus(times("slice", c.x0), str(u)) for u in range(c.x0)]
        key = plus("begin", times("step", c.x1), times("quad", QUAD))
        first = f"({key})"
        if self.ragged:
            first = f"min({key}, {(n - 1) // QUAD * QUAD}u)"
        unit = "first / 4u"
        inner = [f"let first = {first};"]
        for u, element in enumerate(elements):
            if self.k.vectors or n % QUAD == 0:
                value = self.k.quad(f"({element})", unit)
            else:
                value = self._four_keys(f"({element})")
            inner.append(f"let key{u} = {value};")
        inner += [
            f"let half = step % 2u * {r.threads}u;",
            f"dots[half + li] = {' + '.join(f'asked{u} * key{u}' for u in range(c.x0))};",
            "workgroupBarrier();",
            f"if (li < {across}u) {{",
            "  var sum = vec4<f32>();",
            f"  for (var i = 0u; i < {self.a.depth // c.x0}u; i++) "
            f"{{ sum += dots[half + i * {across}u + li]; }}",
            f"  let scored = {self.score.call('query', 'first', 'sum')};",
            f"  let at = {plus(times('step', c.x1), times('li', QUAD))};",
            *(f"  scores[{plus('at', str(e))}] = scored.{lane};" for e, lane in enumerate("xyzw")),
            "}",
        ]
        return [
            f"let quad = li % {across}u;",
            f"let slice = li / {across}u;",
            *(f"let asked{u} = {self._query(element)};" for u, element in enumerate(elements)),
            f"for (var step = 0u; step < {r.steps}u; step++) {{",
            *indented(inner),
            "}",
        ]

    def _query(self, element: str) -> str:
        quad, lane = f"({element}) / 4u", f"({element}) % 4u"
        return f"{self.q.quad('query', f'({quad})')}[{lane}]"

    def _four_keys(self, element: str) -> str:
        """Four keys from ``first`` on, of which some may not be there."""
        last = self.a.keys - 1
        base = plus(self.k.base, times(element, self.k.across))
        lanes = (self.k.side.element(f"{base} + min(first + {e}u, {last}u)") for e in range(QUAD))
        return f"vec4<f32>({', '.join(lanes)})"

    def _each(self, lines: list[str]) -> list[str]:
        """For each score of a thread, at ``at``."""
        r = self.row
        turns = -(-r.part // r.threads)
        if r.part % r.threads:
            lines = [f"if (at < {r.part}u) {{", *indented(lines), "}"]
        return [
            f"for (var turn = 0u; turn < {turns}u; turn++) {{",
            f"  let at = li + turn * {r.threads}u;",
            *indented(lines),
            "}",
        ]

    def _largest(self) -> list[str]:
        value = "scores[at]"
        if self.ragged:
            value = f"select({LOWEST}, {value}, begin + at < {self.a.keys}u)"
        return [
            "workgroupBarrier();",
            f"var mine = {LOWEST};",
            *self._each([f"mine = max(mine, {value});"]),
            *self._over_all("mine", "max"),
            f"var top = {LOWEST};",
            f"for (var i = 0u; i < {SHARES}u; i++) {{ top = max(top, tops[i]); }}",
        ]

    def _weights(self) -> list[str]:
        value = "exp(scores[at] - top)"
        if self.ragged:
            value = f"select(0.0, {value}, begin + at < {self.a.keys}u)"
        return [
            "var share = 0.0;",
            *self._each([f"let w = {value};", "scores[at] = w;", "share += w;"]),
            "workgroupBarrier();",
            *self._over_all("share", "add"),
            "var total = 0.0;",
            f"for (var i = 0u; i < {SHARES}u; i++) {{ total += tops[i]; }}",
        ]

    def _over_all(self, name: str, op: str) -> list[str]:
        """Joins a value of each thread to the few in ``tops``."""
        r = self.row
        value = f"shares[li + i * {SHARES}u]"
        step = f"all = max(all, {value});" if op == "max" else f"all += {value};"
        return [
            f"shares[li] = {name};",
            "workgroupBarrier();",
            f"if (li < {SHARES}u) {{",
            f"  var all = {LOWEST if op == 'max' else '0.0'};",
            f"  for (var i = 0u; i < {r.threads // SHARES}u; i++) {{ {step} }}",
            "  tops[li] = all;",
            "}",
            "workgroupBarrier();",
        ]

    def _sums(self) -> list[str]:
        r, c = self.row, self.c
        inner = []
        for u in range(c.x0):
            value = self.v.quad(self._there(self._place(u)), "lane")
            if self.ragged:
                there = f"{plus('begin', self._place(u))} < {self.a.keys}u"
                value = f"select(vec4<f32>(), {value}, {there})"
            inner.append(f"let value{u} = {value};")
        inner += [
            f"sum = fma(vec4<f32>(scores[{self._place(u)}]), value{u}, sum);" for u in range(c.x0)
        ]
        return [
            "var sum = vec4<f32>();",
            f"for (var step = 0u; step < {r.steps}u; step++) {{",
            *indented(inner),
            "}",
            "sums[li] = sum;",
            "workgroupBarrier();",
        ]

    def _all_rows(self) -> list[str]:
        r = self.row
        return [
            "var result = vec4<f32>();",
            f"for (var i = 0u; i < {r.rows}u; i++) {{ result += sums[i * {r.side}u + li]; }}",
        ]

    def _finished(self, finish: Finish) -> list[str]:
        return [
            *self._all_rows(),
            f"result *= {result_factor(self.a, 'total')};",
            *finish.call("finish", "query", "li * 4u", "result"),
        ]

    def _keep(self) -> list[str]:
        vectors = part_vectors(self.a)
        rows = plus(times("wg.x", self.a.batch * self.a.queries), times("wg.z", self.a.queries))
        first = times(f"({plus(rows, 'query')})", vectors)
        return [
            *self._all_rows(),
            f"parts[{plus(first, 'li')}] = result;",
            "if (li == 0u) {",
            f"  parts[{plus(first, str(vectors - 1))}] = vec4<f32>(top, total, 0.0, 0.0);",
            "}",
        ]
