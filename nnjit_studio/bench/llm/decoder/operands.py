"""Operands and epilogues that the decoder fuses into its 4-bit products."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.bench.llm.decoder.config import PART, LlamaConfig
from nnjit_studio.compiler.wgsl.core.document import Shader
from nnjit_studio.compiler.wgsl.templates.gemv_4bit import threads_of
from nnjit_studio.records.gpu_candidate import GpuCandidate


@dataclass(frozen=True)
class Normed:
    """RMSNorm of the stream, which is ``scaled`` by the norm's gains already.

    The root mean square is one factor of all sums, so it is applied at the end, from
    the ``squares`` that the kernel before left, one number for :data:`PART` columns.
    """

    config: LlamaConfig
    rows: int = 1

    def declare(self, shader: Shader) -> None:
        floats = self.rows * self.config.width
        shader.bind("scaled", "scaled", f"array<vec4<f32>, {floats // 4}>")
        shader.bind("squares", "squares", f"array<f32, {floats // PART}>")

    def start(self, candidate: GpuCandidate) -> list[str]:
        parts = self.config.width // PART
        lines = []
        for i in range(candidate.y0):
            row = f"(wg.y * {candidate.y0}u + {i}u)"
            lines += [
                f"var square{i} = 0.0;",
                f"for (var j = li; j < {parts}u; j += {threads_of(candidate)}u) "
                f"{{ square{i} += squares[{row} * {parts}u + j]; }}",
            ]
        return lines

    def load(self, name: str, word: str, row: str) -> list[str]:
        at = f"{row} * {self.config.width // 4}u + {word} * 2u"
        return [f"let {name}_lo = scaled[{at}];", f"let {name}_hi = scaled[{at} + 1u];"]

    def share(self, row: int) -> str:
        return f"square{row}"

    def factor(self, total: str) -> str:
        return f"inverseSqrt({total} / {float(self.config.width)} + {self.config.epsilon})"


@dataclass(frozen=True)
class Merged:
    """Attention's result, merged from its splits on the way.

    Of each split and head there are the unfinished values, then the largest score m
    and the sum l of ``exp(score - m)``.
    """

    config: LlamaConfig
    rows: int = 1

    def declare(self, shader: Shader) -> None:
        c = self.config
        row, words = c.head // 4 + 1, c.head // 8
        step = c.heads * row
        count = self.rows * c.splits * step
        shader.bind("partials", "partials", f"array<vec4<f32>, {count}>")
        lines = [
            "fn merged(m: u32, word: u32) -> mat2x4<f32> {",
            f"  let at = m * {c.splits * step}u + word / {words}u * {row}u;",
            f"  let part = at + word % {words}u * 2u;",
        ]
        splits = range(c.splits)
        for s in splits:
            lines.append(f"  let e{s} = partials[at + {s * step + row - 1}u].xy;")
        largest = "e0.x"
        for s in splits[1:]:
            largest = f"max({largest}, e{s}.x)"
        lines.append(f"  let top = {largest};")
        lines += [f"  let f{s} = exp(e{s}.x - top);" for s in splits]
        total = " + ".join(f"f{s} * e{s}.y" for s in splits)
        for half in range(2):
            found = " + ".join(f"f{s} * partials[part + {s * step + half}u]" for s in splits)
            lines.append(f"  let v{half} = {found};")
        lines += [f"  let total = {total};", "  return mat2x4<f32>(v0 / total, v1 / total);", "}"]
        shader.line("\n".join(lines))

    def start(self, candidate: GpuCandidate) -> list[str]:
        return []

    def load(self, name: str, word: str, row: str) -> list[str]:
        return [
            f"let {name} = merged({row}, {word});",
            f"let {name}_lo = {name}[0];",
            f"let {name}_hi = {name}[1];",
        ]

    def share(self, row: int) -> str:
        return ""

    def factor(self, total: str) -> str:
        return ""


def each(candidate: GpuCandidate, per: int, lines: list[str]) -> list[str]:
    """The lines for each ``t``-th group of ``per`` sums, of row ``m`` and from column ``n`` on."""
    across, threads = candidate.x1 // per, threads_of(candidate)
    count = across * candidate.y0
    head = f"if (li < {count}u) {{ let t = li;"
    if threads < count:
        head = f"for (var t = li; t < {count}u; t += {threads}u) {{"
    column = f"  let n = wg.x * {candidate.x1}u + t % {across}u * {per}u;"
    row = f"  let m = wg.y * {candidate.y0}u + t / {across}u;"
    return [head, column, row, *(f"  {line}" for line in lines), "}"]


@dataclass(frozen=True)
class Residual:
    """Adds the sums to the stream; leaves it scaled by the next norm's gains, and its squares."""

    config: LlamaConfig
    rows: int = 1

    def declare(self, shader: Shader) -> None:
        width = self.config.width
        shader.bind("gains", "gains", f"array<f32, {width}>")
        for name, floats in (("stream", width), ("scaled", width), ("squares", width // PART)):
            shader.bind(name, name, f"array<f32, {self.rows * floats}>", "read_write")

    def lines(self, candidate: GpuCandidate) -> list[str]:
        width = self.config.width
        add = [
            f"if (n < {width}u) {{",
            f"  let at = m * {width}u + n;",
            "  let value = stream[at] + total[t];",
            "  stream[at] = value;",
            "  scaled[at] = value * gains[n];",
            "  total[t] = value * value;",
            "}",
        ]
        square = [
            f"if (n < {width}u) {{",
            "  var sum = 0.0;",
            f"  for (var j = 0u; j < {PART}u; j++) {{ sum += total[t * {PART}u + j]; }}",
            f"  squares[(m * {width}u + n) / {PART}u] = sum;",
            "}",
        ]
        return [*each(candidate, 1, add), "workgroupBarrier();", *each(candidate, PART, square)]


@dataclass(frozen=True)
class Rotated:
    """RoPE on q and k, neighbouring columns a pair; q is scaled, k and v go to the cache.

    Source of the rotation: Su et al., RoFormer, equation 34.
    """

    config: LlamaConfig
    rows: int = 1

    def declare(self, shader: Shader) -> None:
        c = self.config
        shader.bind("rope", "rope", f"array<vec2<f32>, {c.context * c.head // 2}>")
        shader.bind("state", "state", "array<u32, 4>")
        shader.bind("query", "query", f"array<vec2<f32>, {self.rows * c.width // 2}>", "read_write")
        shader.bind("cache", "cache", f"array<u32, {c.context * c.width}>", "read_write")

    def lines(self, candidate: GpuCandidate) -> list[str]:
        c = self.config
        return each(
            candidate,
            2,
            [
                f"if (n < {3 * c.width}u) {{",
                "  let position = state[0] + m;",
                f"  let part = n / {c.width}u;",
                f"  let d = n % {c.width}u;",
                f"  let pair = d % {c.head}u / 2u;",
                "  var value = vec2<f32>(total[t * 2u], total[t * 2u + 1u]);",
                f"  let turn = rope[position * {c.head // 2}u + pair];",
                "  if (part < 2u) {",
                "    value = vec2<f32>(value.x * turn.x - value.y * turn.y, "
                "value.x * turn.y + value.y * turn.x);",
                "  }",
                "  if (part == 0u) {",
                f"    query[(m * {c.width}u + d) / 2u] = value * {c.head**-0.5!r};",
                "  } else {",
                f"    let head = (part - 1u) * {c.heads}u + d / {c.head}u;",
                f"    let row = head * {c.context}u + position;",
                f"    cache[row * {c.head // 2}u + pair] = pack2x16float(value);",
                "  }",
                "}",
            ],
        )


@dataclass(frozen=True)
class Gated:
    """``silu(gate) * up`` of neighbouring columns."""

    config: LlamaConfig
    rows: int = 1

    def declare(self, shader: Shader) -> None:
        floats = self.rows * self.config.hidden
        shader.bind("gated", "gated", f"array<f32, {floats}>", "read_write")

    def lines(self, candidate: GpuCandidate) -> list[str]:
        body = [
            f"if (n < {2 * self.config.hidden}u) {{",
            "  let gate = total[t * 2u];",
            f"  let at = m * {self.config.hidden}u + n / 2u;",
            "  gated[at] = gate / (1.0 + exp(-gate)) * total[t * 2u + 1u];",
            "}",
        ]
        return each(candidate, 2, body)


@dataclass(frozen=True)
class Scored:
    """Logits, and of each :data:`PART` of them the largest with its id, the lowest of equals."""

    config: LlamaConfig

    def declare(self, shader: Shader) -> None:
        vocabulary = self.config.vocabulary
        shader.bind("logits", "logits", f"array<f32, {vocabulary}>", "read_write")
        shader.bind("best", "best", f"array<vec2<u32>, {vocabulary // PART}>", "read_write")

    def lines(self, candidate: GpuCandidate) -> list[str]:
        vocabulary = self.config.vocabulary
        store = [f"if (n < {vocabulary}u) {{ logits[n] = total[t]; }}"]
        choose = [
            f"if (n < {vocabulary}u) {{",
            f"  var largest = total[t * {PART}u];",
            "  var at = 0u;",
            f"  for (var j = 1u; j < {PART}u; j++) {{",
            f"    let value = total[t * {PART}u + j];",
            "    if (value > largest) { largest = value; at = j; }",
            "  }",
            f"  best[n / {PART}u] = vec2<u32>(bitcast<u32>(largest), n + at);",
            "}",
        ]
        return [*each(candidate, 1, store), *each(candidate, PART, choose)]
