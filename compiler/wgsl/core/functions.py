"""WGSL functions that the language lacks, or specifies with too few digits.

WGSL's own ``sin`` may be off by 2**-11, its ``tanh`` overflows, its ``exp``
loses digits with the size of the argument, and ``erf`` does not exist. These
are the Wasm kernels' polynomials and reductions
(:mod:`nnjit_studio.compiler.wasm.vector_math`, whose docstring tells where they
are from), with ``fma`` in place of a product and a sum. Largest errors in units
in the last place, sampled on lavapipe by the tests: exp 2, tanh 6, erf 6, log 3,
sigmoid 4, sin and cos 2 up to 1000, tan 4 up to 100, the rest 5.

An implementation may assume that floats are finite, so nothing here compares
with an infinity or tests ``x != x``: NaN and infinity are told by their bits.
It may also regroup sums and products (Mesa does): where digits hang on their
order, a ``clamp`` or ``max`` that changes nothing stands between the steps.
Constants that are not finite come out of a private variable, since WGSL has
no literals for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SOURCES = """
var<private> inf_bits: u32 = 0x7f800000u;
var<private> nan_bits: u32 = 0x7fc00000u;
fn inf() -> f32 { return bitcast<f32>(inf_bits); }
fn nan() -> f32 { return bitcast<f32>(nan_bits); }
fn magnitude(x: f32) -> u32 { return bitcast<u32>(x) & 0x7fffffffu; }
fn is_nan(x: f32) -> bool { return magnitude(x) > 0x7f800000u; }
fn is_finite(x: f32) -> bool { return magnitude(x) < 0x7f800000u; }
fn differ(a: f32, b: f32) -> bool { return !(a == b) || is_nan(a) || is_nan(b); }
fn with_sign(x: f32, sign: f32) -> f32 {
  return bitcast<f32>(magnitude(x) | (bitcast<u32>(sign) & 0x80000000u));
}
fn min_f32(a: f32, b: f32) -> f32 {
  return select(select(min(a, b), b, is_nan(b)), a, is_nan(a));
}
fn max_f32(a: f32, b: f32) -> f32 {
  return select(select(max(a, b), b, is_nan(b)), a, is_nan(a));
}
fn div_f32(a: f32, b: f32) -> f32 {
  let q = a / b;
  let better = fma(fma(-q, b, a), 1.0f / b, q);
  return select(q, better, is_finite(better));
}
fn mod_floor_f32(a: f32, b: f32) -> f32 { return a - floor(div_f32(a, b)) * b; }
fn mod_trunc_f32(a: f32, b: f32) -> f32 { return a - trunc(div_f32(a, b)) * b; }
fn sqrt_f32(x: f32) -> f32 {
  let special = select(nan(), x, magnitude(x) == 0u || x > 0.0f || is_nan(x));
  return select(special, sqrt(x), is_finite(x) && x > 0.0f);
}
fn rsqrt_f32(x: f32) -> f32 {
  if (magnitude(x) == 0u) { return with_sign(inf(), x); }
  return 1.0f / sqrt_f32(x);
}
fn exp_f32(x: f32) -> f32 {
  let c = clamp(x, -104.0f, 89.0f);
  let n = round(c * 1.442695f);
  let r = fma(n, 2.12194440e-4f, clamp(fma(n, -0.693359375f, c), -1.0f, 1.0f));
  let p = fma(fma(fma(fma(0.0013814467f, r, 0.008368781f), r, 0.041668393f), r, 0.1666652f), r,
    0.49999994f);
  let power = i32(n);
  let half = power >> 1u;
  let scale = bitcast<f32>((half + 127) << 23u);
  let rest = bitcast<f32>((power - half + 127) << 23u);
  let value = ((fma(r * r, p, r) + 1.0f) * scale) * rest;
  return select(select(value, inf(), x > 88.8f), x, is_nan(x));
}
fn log_f32(x: f32) -> f32 {
  let tiny = x < 1.17549435e-38f;
  let bits = bitcast<i32>(select(x, x * 8388608.0f, tiny));
  let exponent = (bits - 0x3f3504f3) >> 23u;
  let f = bitcast<f32>(bits - (exponent << 23u)) - 1.0f;
  let e = f32(exponent) - select(0.0f, 23.0f, tiny);
  let s = f * f;
  var p = fma(0.067466408f, f, -0.11675652f);
  p = fma(fma(fma(p, f, 0.11888162f), f, -0.12405589f), f, 0.14219552f);
  p = fma(fma(fma(fma(p, f, -0.16667996f), f, 0.20002119f), f, -0.25000009f), f, 0.33333313f);
  let low = fma(-0.5f, s, fma(s * f, p, e * -2.12194440e-4f));
  let value = fma(e, 0.693359375f, low + f);
  if (is_nan(x) || (magnitude(x) != 0u && x < 0.0f)) { return nan(); }
  return select(select(value, -inf(), magnitude(x) == 0u), x, !is_finite(x));
}
fn pow_f32(x: f32, y: f32) -> f32 {
  if (y == 0.0f) { return 1.0f; }
  let whole = trunc(y) == y;
  let odd = whole && trunc(y * 0.5f) != y * 0.5f;
  let negative = x < 0.0f;
  let value = exp_f32(y * log_f32(abs(x)));
  let signed = select(value, -value, odd && negative);
  return select(signed, nan(), negative && !whole);
}
fn tanh_f32(x: f32) -> f32 {
  let t = clamp(x, -9.02f, 9.02f);
  let s = t * t;
  let top = fma(fma(fma(fma(1.331781e-08f, s, 2.05825709e-05f), s, 0.0034939805f), s,
    0.133796737f), s, 0.99999994f);
  let bottom = fma(fma(fma(fma(7.76149193e-07f, s, 0.000328300346f), s, 0.0258708708f), s,
    0.467129856f), s, 1.0f);
  return select(clamp(t * top / bottom, -1.0f, 1.0f), x, is_nan(x));
}
fn erf_f32(x: f32) -> f32 {
  let t = clamp(x, -3.95f, 3.95f);
  let s = t * t;
  let top = fma(fma(fma(fma(fma(2.0258592e-06f, s, 0.000284666748f), s, 0.00380766299f), s,
    0.0528738797f), s, 0.191540077f), s, 1.12837923f);
  let bottom = fma(fma(fma(fma(fma(3.78301957e-05f, s, 0.00117058668f), s, 0.0150541011f), s,
    0.114555188f), s, 0.503080726f), s, 1.0f);
  return select(clamp(t * top / bottom, -1.0f, 1.0f), x, is_nan(x));
}
fn sigmoid_f32(x: f32) -> f32 {
  let e = exp_f32(-abs(x));
  return div_f32(select(1.0f, e, x < 0.0f), e + 1.0f);
}
fn sine(x: f32, quarter: i32) -> f32 {
  let n = round(x * 0.636619772f);
  let high = clamp(fma(n, -1.5703125f, x), -1000.0f, 1000.0f);
  let middle = clamp(fma(n, -4.837512969970703125e-4f, high), -1.0f, 1.0f);
  let r = clamp(fma(n, -7.54978995489188216e-8f, middle), -1.0f, 1.0f);
  let s = r * r;
  let p = fma(fma(fma(2.7173667e-06f, s, -0.00019839233f), s, 0.0083333291f), s, -0.16666667f);
  let q = fma(fma(2.4425681e-05f, s, -0.0013887251f), s, 0.041666646f);
  let a = fma(r * s, p, r);
  let b = fma(s * s, q, fma(s, -0.5f, 1.0f));
  let quadrant = i32(clamp(n, -2.0e9f, 2.0e9f)) + quarter;
  let value = select(a, b, (quadrant & 1) != 0);
  return select(nan(), select(value, -value, (quadrant & 2) != 0), is_finite(x));
}
fn sin_f32(x: f32) -> f32 { return sine(x, 0); }
fn cos_f32(x: f32) -> f32 { return sine(x, 1); }
fn tan_f32(x: f32) -> f32 { return div_f32(sine(x, 0), sine(x, 1)); }
fn log1p_f32(u: f32) -> f32 {
  let w = max(u + 1.0f, 1.0f);
  let d = w - 1.0f;
  if (d == 0.0f) { return u; }
  return select(log_f32(w), log_f32(w) * (u / d), is_finite(w) && w > 0.0f);
}
fn atan_f32(x: f32) -> f32 {
  let a = abs(x);
  let low = a <= 0.414213562f;
  let high = a > 2.41421356f;
  let above = select(select(a - 1.0f, -1.0f, high), a, low);
  let below = select(select(a + 1.0f, a, high), 1.0f, low);
  let t = select(above / below, 0.0f, !is_finite(below));
  let s = t * t;
  let p = fma(fma(fma(fma(-0.060782094f, s, 0.10593808f), s, -0.14243533f), s, 0.19998471f), s,
    -0.33333316f);
  let angle = fma(t * s, p, t);
  let base = select(0.785398163f, 1.57079633f, high);
  return select(with_sign(select(angle + base, angle, low), x), x, is_nan(x));
}
fn asin_part(a: f32) -> f32 {
  let t = select(sqrt_f32((1.0f - a) * 0.5f), a, a <= 0.5f);
  let s = t * t;
  let p = fma(fma(fma(fma(fma(0.037516497f, s, 0.014438573f), s, 0.031807728f), s, 0.044516955f),
    s, 0.07500504f), s, 0.1666666f);
  return fma(t * s, p, t);
}
fn asin_f32(x: f32) -> f32 {
  let a = abs(x);
  let part = asin_part(a);
  let value = with_sign(select(1.57079633f - (part + part), part, a <= 0.5f), x);
  return select(nan(), value, a <= 1.0f);
}
fn acos_f32(x: f32) -> f32 {
  let a = abs(x);
  let part = asin_part(a);
  let far = select(part + part, 3.14159265f - (part + part), x < 0.0f);
  let value = select(far, 1.57079633f - with_sign(part, x), a <= 0.5f);
  return select(nan(), value, a <= 1.0f);
}
fn sinh_f32(x: f32) -> f32 {
  let a = abs(x);
  let root = exp_f32(a * 0.5f);
  let s = x * x;
  let p = fma(fma(fma(2.8169516e-06f, s, 0.00019836159f), s, 0.0083333496f), s, 0.16666667f);
  let near = fma(x * s, p, x);
  let far = with_sign((root * 0.5f) * root - (0.5f / root) / root, x);
  return select(select(far, near, a < 1.0f), x, !is_finite(x));
}
fn cosh_f32(x: f32) -> f32 {
  let root = exp_f32(abs(x) * 0.5f);
  let value = (root * 0.5f) * root + (0.5f / root) / root;
  return select(abs(x), value, is_finite(x));
}
fn far_log(x: f32, near: f32) -> f32 {
  return select(near, log_f32(x) + 0.693147181f, x > 1.0e9f || !is_finite(x));
}
fn asinh_f32(x: f32) -> f32 {
  let a = abs(x);
  let s = a * a;
  let near = log1p_f32(a + s / (sqrt(s + 1.0f) + 1.0f));
  return with_sign(far_log(a, near), x);
}
fn acosh_f32(x: f32) -> f32 {
  let t = x - 1.0f;
  let value = far_log(x, log1p_f32(t + sqrt_f32(t + t + t * t)));
  return select(nan(), value, x >= 1.0f);
}
fn atanh_f32(x: f32) -> f32 {
  let a = abs(x);
  if (a == 1.0f) { return with_sign(inf(), x); }
  let value = with_sign(0.5f * log1p_f32((a + a) / (1.0f - a)), x);
  return select(nan(), value, a < 1.0f);
}
fn half_bits(x: f32) -> u32 {
  let bits = magnitude(x);
  let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
  let normal = (bits + (0xfffu - (112u << 23u)) + ((bits >> 13u) & 1u)) >> 13u;
  let shift = u32(clamp(126 - i32(bits >> 23u), 1, 26));
  let m = (bits & 0x7fffffu) | 0x800000u;
  let tiny = (m + (1u << (shift - 1u)) - 1u + ((m >> shift) & 1u)) >> shift;
  let finite = select(tiny, normal, bits >= 0x38800000u);
  return sign | select(select(finite, 0x7c00u, bits >= 0x477ff000u), 0x7e00u, bits > 0x7f800000u);
}
fn half_value(half: u32) -> f32 {
  let sign = (half & 0x8000u) << 16u;
  let e = (half >> 10u) & 31u;
  let m = half & 0x3ffu;
  let tiny = bitcast<u32>(f32(m) * 5.9604644775390625e-8f);
  let normal = ((e + 112u) << 23u) | (m << 13u);
  let special = 0x7f800000u | (m << 13u);
  return bitcast<f32>(sign | select(select(normal, special, e == 31u), tiny, e == 0u));
}
fn round_f16(x: f32) -> f32 { return half_value(half_bits(x)); }
fn half_at(word: u32, i: i32) -> f32 {
  return half_value((word >> (16u * (u32(i) & 1u))) & 0xffffu);
}
fn byte_at(word: u32, i: i32) -> i32 { return i32((word >> (8u * (u32(i) & 3u))) & 0xffu); }
fn signed_byte_at(word: u32, i: i32) -> i32 { return (byte_at(word, i) << 24u) >> 24u; }
fn four_bytes(a: i32, b: i32, c: i32, d: i32) -> u32 {
  return (u32(a) & 0xffu) | ((u32(b) & 0xffu) << 8u) | ((u32(c) & 0xffu) << 16u) | (u32(d) << 24u);
}
fn to_i32(x: f32) -> i32 {
  if (is_nan(x)) { return 0; }
  return select(i32(clamp(x, -2147483648.0f, 2147483520.0f)), 2147483647, x >= 2147483648.0f);
}
fn trunc_div(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; }
  if (b == -1) { return -a; }
  return a / b;
}
fn trunc_mod(a: i32, b: i32) -> i32 {
  if (b == 0 || b == -1) { return 0; }
  return a - a / b * b;
}
fn floor_div(a: i32, b: i32) -> i32 {
  let q = trunc_div(a, b);
  return select(q, q - 1, trunc_mod(a, b) != 0 && ((a ^ b) < 0));
}
fn floor_mod(a: i32, b: i32) -> i32 {
  let r = trunc_mod(a, b);
  return select(r, r + b, r != 0 && ((r ^ b) < 0));
}
fn shift_left(a: i32, b: i32, bits: u32) -> i32 {
  return select(a << (u32(b) & 31u), 0, u32(b) >= bits);
}
fn shift_right(a: i32, b: i32, bits: u32) -> i32 {
  return a >> (min(u32(b), bits - 1u) & 31u);
}
"""


def _split(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in text.strip().splitlines():
        start = re.match(r"(?:fn|var<private>) (\w+)", line)
        if start:
            name = start[1]
            found[name] = ""
        found[name] += line + "\n"
    return found


SOURCES = _split(_SOURCES)
"""Each declaration by its name."""
_WORDS = re.compile(r"\w+")


def functions_of(code: str) -> list[str]:
    """The declarations that a shader needs, those that they need among them, in a fixed order."""
    needed: set[str] = set()
    waiting: Iterable[str] = _WORDS.findall(code)
    while names := {n for n in waiting if n in SOURCES and n not in needed}:
        needed |= names
        waiting = [w for n in names for w in _WORDS.findall(SOURCES[n]) if w != n]
    return [source for name, source in SOURCES.items() if name in needed]


def used_functions(code: str) -> str:
    """The text of :func:`functions_of`."""
    return "".join(functions_of(code))
