"""Products of floats with weights in blocks, spelled by hand as the importer writes them."""

from __future__ import annotations

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.quantised import WORD_BITS


def block_product(
    m: int,
    k: int,
    n: int,
    block: int,
    bits: int = 4,
    zeros: bool = False,
    half: bool = False,
    heads: int = 1,
) -> Program:
    """``out[m, n]``, or ``out[h, m, d]`` of heads; ``half`` has the scales in f16, 64 times."""
    per_word = WORD_BITS // bits
    words, width, stride = block // per_word, n // heads, n + -n % LANES
    m_, h, d, g, q, r = (Var(f"i{i}") for i in range(6))
    column, row = h * width + d, g * words + q
    out = h * (m * width) + m_ * width + d
    load = Load("w", row * n + column)
    bits_of = Binary("bitand", Binary("shr", load, r * bits), Const((1 << bits) - 1, "i32"))
    group = g * stride + column
    half_way = Const(float(1 << (bits - 1)), "f32")
    zero = Cast(Load("z", group), "f32") if zeros else half_way
    scale = Load("s", group) * (1 / 64) if half else Load("s", group)
    value = Binary("sub", Cast(bits_of, "f32"), zero) * scale
    product = Load("a", m_ * k + (row * per_word + r)) * value
    extents = m, heads, width, k // block, words, per_word
    axes = tuple(Axis(f"i{i}", e, "reduce" if i > 2 else "spatial") for i, e in enumerate(extents))
    total = Store("out", out, Load("out", out) + product)
    groups = (k // block, stride)
    buffers = [
        Buffer("a", "f32", (m, k), "input"),
        Buffer("w", "i32", (k // per_word, n), "input", True),
        Buffer("s", "f16" if half else "f32", groups, "input", True),
        *([Buffer("z", "u8", groups, "input", True)] if zeros else []),
        Buffer("out", "f32", (heads, m, width) if heads > 1 else (m, n), "output"),
    ]
    stage = Stage("matmul", axes, (total,), (Store("out", out, Const(0.0, "f32")),))
    return Program("matmul", tuple(buffers), (stage,))
