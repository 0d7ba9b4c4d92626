"""Attention of one token over the cache: an online softmax in each of several splits."""

from __future__ import annotations

from nnjit_studio.bench.llm.decoder.config import LlamaConfig
from nnjit_studio.compiler.wgsl.core.document import Dispatch, Shader

THREADS = 256
TILE = THREADS // 2
"""Positions whose scores are held at a time."""
_NONE = "-3.0e38"
_GROUPS = 16


def split_attention(config: LlamaConfig, tokens: int = 1) -> Dispatch:
    """Each workgroup takes one head of one of ``tokens``, and an even share of its positions.

    Threads side by side read eight values each of a position's key, so a key is one
    whole load; scores are summed through workgroup memory, the values weighted by
    ``exp(score - m)`` with the running maximum m (Milakov and Gimelshein, Online
    normalizer calculation for softmax). :class:`Merged` joins the splits.
    """
    c = config
    shader = Shader()
    shader.bind("query", "query", f"array<vec4<f32>, {tokens * c.width // 4}>")
    shader.bind("cache", "cache", f"array<vec4<u32>, {c.context * c.width // 4}>")
    shader.bind("state", "state", "array<u32, 4>")
    count = tokens * c.splits * c.heads * (c.head // 4 + 1)
    shader.bind("partials", "partials", f"array<vec4<f32>, {count}>", "read_write")
    shader.workgroup("held", f"array<f32, {max(TILE * c.head // 8, THREADS * 8)}>")
    shader.workgroup("weights", f"array<f32, {TILE}>")
    shader.workgroup("shares", f"array<f32, {THREADS}>")
    shader.workgroup("tops", f"array<f32, {_GROUPS}>")
    shader.line(
        "fn low(x: vec4<u32>) -> vec4<f32> "
        "{ return vec4<f32>(unpack2x16float(x.x), unpack2x16float(x.y)); }\n"
        "fn high(x: vec4<u32>) -> vec4<f32> "
        "{ return vec4<f32>(unpack2x16float(x.z), unpack2x16float(x.w)); }"
    )
    body = [
        *_begin(c),
        f"for (var base = begin; base < end; base += {TILE}u) {{",
        *_score_tile(c),
        *_add_values(c),
        "}",
        *_store(c),
    ]
    return shader.dispatch(THREADS, (c.heads, c.splits, tokens), body)


def _rows(c: LlamaConfig) -> int:
    """Positions that a workgroup reads at once: one takes a thread for eight values of a head."""
    return THREADS // (c.head // 8)


def _loads(c: LlamaConfig, name: str, first: str) -> list[str]:
    """Rows of the tile from the cache, all in flight together."""
    rows, side = _rows(c), c.head // 8
    return [
        f"  let {name}{u} = cache[{first} + min(base + row + {u * rows}u, end - 1u) * {side}u];"
        for u in range(TILE // rows)
    ]


def _begin(c: LlamaConfig) -> list[str]:
    """The share of positions, the query, and the running maximum, sum and values."""
    side = c.head // 8
    return [
        "let count = state[0] + wg.z + 1u;",
        f"let share = (count + {c.splits - 1}u) / {c.splits}u;",
        "let begin = wg.y * share;",
        "let end = min(begin + share, count);",
        f"let lane = li % {side}u;",
        f"let row = li / {side}u;",
        f"let asked = wg.z * {c.width // 4}u + wg.x * {c.head // 4}u + lane * 2u;",
        "let q0 = query[asked];",
        "let q1 = query[asked + 1u];",
        f"let keys = wg.x * {c.context * side}u + lane;",
        "var v0 = vec4<f32>();",
        "var v1 = vec4<f32>();",
        f"var top = {_NONE};",
        "var sum = 0.0;",
    ]


def _score_tile(c: LlamaConfig) -> list[str]:
    """Weights of the tile's positions, under the new running maximum."""
    side = c.head // 8
    products = (
        f"  held[li + {u * THREADS}u] = dot(low(k{u}), q0) + dot(high(k{u}), q1);"
        for u in range(TILE // _rows(c))
    )
    return [
        *_loads(c, "k", "keys"),
        *products,
        "  workgroupBarrier();",
        f"  var score = {_NONE};",
        f"  if (li < {TILE}u && base + li < end) {{",
        "    score = 0.0;",
        f"    for (var j = 0u; j < {side}u; j++) {{ score += held[li * {side}u + j]; }}",
        "  }",
        *_over_all("score", "max"),
        "  let before = top;",
        f"  for (var j = 0u; j < {_GROUPS}u; j++) {{ top = max(top, tops[j]); }}",
        "  let shrink = exp(before - top);",
        f"  let weight = select(0.0, exp(score - top), score > {_NONE});",
        f"  if (li < {TILE}u) {{ weights[li] = weight; }}",
        "  sum = sum * shrink + weight;",
        "  v0 *= shrink;",
        "  v1 *= shrink;",
        "  workgroupBarrier();",
    ]


def _add_values(c: LlamaConfig) -> list[str]:
    """The tile's values, weighted."""
    rows = _rows(c)
    lines = _loads(c, "x", f"{c.heads * c.context * c.head // 8}u + keys")
    for u in range(TILE // rows):
        lines += [
            f"  let w{u} = weights[row + {u * rows}u];",
            f"  v0 = fma(vec4<f32>(w{u}), low(x{u}), v0);",
            f"  v1 = fma(vec4<f32>(w{u}), high(x{u}), v1);",
        ]
    return lines


def _store(c: LlamaConfig) -> list[str]:
    """Values summed over the workgroup's rows, then the maximum and the sum of the weights."""
    row = c.head // 4 + 1
    return [
        "workgroupBarrier();",
        *(f"held[li * 8u + {e}u] = v{e // 4}.{'xyzw'[e % 4]};" for e in range(8)),
        *_over_all("sum", "+"),
        f"let part = ((wg.z * {c.splits}u + wg.y) * {c.heads}u + wg.x) * {row}u;",
        f"if (li < {c.head // 4}u) {{",
        "  var value = vec4<f32>();",
        f"  for (var j = 0u; j < {_rows(c)}u; j++) {{",
        f"    let at = j * {c.head}u + li * 4u;",
        "    value += vec4<f32>(held[at], held[at + 1u], held[at + 2u], held[at + 3u]);",
        "  }",
        "  partials[part + li] = value;",
        "}",
        f"if (li == {c.head // 4}u) {{",
        "  var all = 0.0;",
        f"  for (var j = 0u; j < {_GROUPS}u; j++) {{ all += tops[j]; }}",
        f"  partials[part + {row - 1}u] = vec4<f32>(top, all, 0.0, 0.0);",
        "}",
    ]


def _over_all(name: str, op: str) -> list[str]:
    """Reduce over the workgroup down to the sixteen values in ``tops``."""
    next_ = "all = max(all, x);" if op == "max" else "all += x;"
    return [
        f"shares[li] = {name};",
        "workgroupBarrier();",
        f"if (li < {_GROUPS}u) {{",
        "  var all = shares[li];",
        f"  for (var j = {_GROUPS}u; j < {THREADS}u; j += {_GROUPS}u) "
        f"{{ let x = shares[li + j]; {next_} }}",
        "  tops[li] = all;",
        "}",
        "workgroupBarrier();",
    ]
