"""The decoder's first and last dispatch: a token's row of the table, and the next token."""

from __future__ import annotations

from nnjit_studio.bench.llm.decoder.config import BLOCK, PART, LlamaConfig
from nnjit_studio.compiler.wgsl.core.document import Dispatch, Shader

_EMBED_THREADS = 64
_PICK_THREADS = 256


def embed(config: LlamaConfig, rows: int = 1) -> Dispatch:
    """The streams of ``rows`` tokens from the position in ``state`` on; a thread makes 16 columns.

    The table is 4-bit too, a token's row of words in one piece.
    """
    c = config
    words, blocks = c.width // 8, c.width // BLOCK
    shader = Shader()
    shader.bind("words", "words", f"array<u32, {c.vocabulary * words}>")
    shader.bind("scales", "scales", f"array<u32, {c.vocabulary * blocks // 2}>")
    shader.bind("tokens", "tokens", f"array<u32, {c.context}>")
    shader.bind("state", "state", "array<u32, 4>")
    shader.bind("gains", "gains", f"array<f32, {c.width}>")
    for name, floats in (("stream", c.width), ("scaled", c.width), ("squares", c.width // PART)):
        shader.bind(name, name, f"array<f32, {rows * floats}>", "read_write")
    parts = c.width // PART
    body = [
        f"let part = wg.x * {_EMBED_THREADS}u + li;",
        f"if (part >= {parts}u) {{ return; }}",
        f"let token = min(tokens[min(state[0] + wg.y, {c.context - 1}u)], {c.vocabulary - 1}u);",
        f"let at = token * {blocks}u + part * {PART}u / {BLOCK}u;",
        "let scale = unpack2x16float(scales[at / 2u])[at % 2u];",
        "var sum = 0.0;",
        f"for (var j = 0u; j < {PART}u; j++) {{",
        f"  let n = part * {PART}u + j;",
        f"  let q = (words[token * {words}u + n / 8u] >> (n % 8u * 4u)) & 15u;",
        "  let value = (f32(q) - 8.0) * scale;",
        f"  stream[wg.y * {c.width}u + n] = value;",
        f"  scaled[wg.y * {c.width}u + n] = value * gains[n];",
        "  sum += value * value;",
        "}",
        f"squares[wg.y * {parts}u + part] = sum;",
    ]
    return shader.dispatch(_EMBED_THREADS, (-(-parts // _EMBED_THREADS), rows, 1), body)


def pick(config: LlamaConfig) -> Dispatch:
    """The likeliest token becomes the next, unless the prompt has one there; one step on.

    ``state`` is the position and the prompt's length.
    """
    c = config
    parts = c.vocabulary // PART
    shader = Shader()
    shader.bind("best", "best", f"array<vec2<u32>, {parts}>")
    shader.bind("state", "state", "array<u32, 4>", "read_write")
    shader.bind("tokens", "tokens", f"array<u32, {c.context}>", "read_write")
    shader.workgroup("values", f"array<f32, {_PICK_THREADS}>")
    shader.workgroup("ids", f"array<u32, {_PICK_THREADS}>")
    better = "value > largest || (value == largest && other < id)"
    body = [
        "var largest = -3.4e38;",
        "var id = 0u;",
        f"for (var j = li; j < {parts}u; j += {_PICK_THREADS}u) {{",
        "  let value = bitcast<f32>(best[j].x);",
        "  let other = best[j].y;",
        f"  if ({better}) {{ largest = value; id = other; }}",
        "}",
        "values[li] = largest;",
        "ids[li] = id;",
        "workgroupBarrier();",
        f"for (var d = {_PICK_THREADS // 2}u; d > 0u; d >>= 1u) {{",
        "  if (li < d) {",
        "    let value = values[li + d];",
        "    let other = ids[li + d];",
        f"    if ({better}) {{",
        "      largest = value;",
        "      id = other;",
        "      values[li] = value;",
        "      ids[li] = other;",
        "    }",
        "  }",
        "  workgroupBarrier();",
        "}",
        "if (li == 0u) {",
        "  let next = state[0] + 1u;",
        f"  if (next >= state[1] && next < {c.context}u) {{ tokens[next] = id; }}",
        f"  state[0] = min(next, {c.context - 1}u);",
        "}",
    ]
    return shader.dispatch(_PICK_THREADS, (1, 1, 1), body)


def advance(config: LlamaConfig, rows: int) -> Dispatch:
    """``rows`` positions on, with no token chosen."""
    shader = Shader()
    shader.bind("state", "state", "array<u32, 4>", "read_write")
    body = [f"state[0] = min(state[0] + {rows}u, {config.context - 1}u);"]
    return shader.dispatch(1, (1, 1, 1), body)
