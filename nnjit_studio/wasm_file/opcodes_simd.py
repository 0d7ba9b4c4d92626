"""The vector instructions, prefix 0xFD, and their relaxed forms.

Rows as in :mod:`nnjit_studio.wasm_file.opcodes`.
"""

from __future__ import annotations

_COMPARE = "eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
_COMPARE_FLOAT = "eq ne lt gt le ge"
_ARITHMETIC = "add add_sat_s add_sat_u sub sub_sat_s sub_sat_u"
_HALVES = "extend_low_{0}_s extend_high_{0}_s extend_low_{0}_u extend_high_{0}_u"
_PRODUCTS = "extmul_low_{0}_s extmul_high_{0}_s extmul_low_{0}_u extmul_high_{0}_u"
_BINARY_FLOAT = "add sub mul div min max pmin pmax"
_WIDENED = "load8x8_s load8x8_u load16x4_s load16x4_u load32x2_s load32x2_u"


def each(type_: str, names: str) -> str:
    """Names of instructions on one type."""
    return " ".join(f"{type_}.{name}" for name in names.split())


MEMORY = (
    (0xFD0000, "m", "i:v", each("v128", f"load {_WIDENED}")),
    (0xFD0007, "m", "i:v", each("v128", "load8_splat load16_splat load32_splat load64_splat")),
    (0xFD000B, "m", "iv:", "v128.store"),
    (0xFD0054, "mb", "iv:v", each("v128", "load8_lane load16_lane load32_lane load64_lane")),
    (0xFD0058, "mb", "iv:", each("v128", "store8_lane store16_lane store32_lane store64_lane")),
    (0xFD005C, "m", "i:v", "v128.load32_zero v128.load64_zero"),
)

LANES = (
    (0xFD000C, "V", ":v", "v128.const"),
    (0xFD000D, "L", "vv:v", "i8x16.shuffle"),
    (0xFD000E, "", "vv:v", "i8x16.swizzle"),
    (0xFD000F, "", "i:v", "i8x16.splat i16x8.splat i32x4.splat"),
    (0xFD0012, "", "I:v", "i64x2.splat"),
    (0xFD0013, "", "f:v", "f32x4.splat"),
    (0xFD0014, "", "F:v", "f64x2.splat"),
    (0xFD0015, "b", "v:i", "i8x16.extract_lane_s i8x16.extract_lane_u"),
    (0xFD0017, "b", "vi:v", "i8x16.replace_lane"),
    (0xFD0018, "b", "v:i", "i16x8.extract_lane_s i16x8.extract_lane_u"),
    (0xFD001A, "b", "vi:v", "i16x8.replace_lane"),
    (0xFD001B, "b", "v:i", "i32x4.extract_lane"),
    (0xFD001C, "b", "vi:v", "i32x4.replace_lane"),
    (0xFD001D, "b", "v:I", "i64x2.extract_lane"),
    (0xFD001E, "b", "vI:v", "i64x2.replace_lane"),
    (0xFD001F, "b", "v:f", "f32x4.extract_lane"),
    (0xFD0020, "b", "vf:v", "f32x4.replace_lane"),
    (0xFD0021, "b", "v:F", "f64x2.extract_lane"),
    (0xFD0022, "b", "vF:v", "f64x2.replace_lane"),
)

BITS = (
    (0xFD0023, "", "vv:v", each("i8x16", _COMPARE)),
    (0xFD002D, "", "vv:v", each("i16x8", _COMPARE)),
    (0xFD0037, "", "vv:v", each("i32x4", _COMPARE)),
    (0xFD0041, "", "vv:v", each("f32x4", _COMPARE_FLOAT)),
    (0xFD0047, "", "vv:v", each("f64x2", _COMPARE_FLOAT)),
    (0xFD004D, "", "v:v", "v128.not"),
    (0xFD004E, "", "vv:v", "v128.and v128.andnot v128.or v128.xor"),
    (0xFD0052, "", "vvv:v", "v128.bitselect"),
    (0xFD0053, "", "v:i", "v128.any_true"),
    (0xFD005E, "", "v:v", "f32x4.demote_f64x2_zero f64x2.promote_low_f32x4"),
)

BYTES = (
    (0xFD0060, "", "v:v", "i8x16.abs i8x16.neg i8x16.popcnt"),
    (0xFD0063, "", "v:i", "i8x16.all_true i8x16.bitmask"),
    (0xFD0065, "", "vv:v", "i8x16.narrow_i16x8_s i8x16.narrow_i16x8_u"),
    (0xFD0067, "", "v:v", "f32x4.ceil f32x4.floor f32x4.trunc f32x4.nearest"),
    (0xFD006B, "", "vi:v", "i8x16.shl i8x16.shr_s i8x16.shr_u"),
    (0xFD006E, "", "vv:v", each("i8x16", _ARITHMETIC)),
    (0xFD0074, "", "v:v", "f64x2.ceil f64x2.floor"),
    (0xFD0076, "", "vv:v", "i8x16.min_s i8x16.min_u i8x16.max_s i8x16.max_u"),
    (0xFD007A, "", "v:v", "f64x2.trunc"),
    (0xFD007B, "", "vv:v", "i8x16.avgr_u"),
    (0xFD007C, "", "v:v", each("i16x8", "extadd_pairwise_i8x16_s extadd_pairwise_i8x16_u")),
    (0xFD007E, "", "v:v", each("i32x4", "extadd_pairwise_i16x8_s extadd_pairwise_i16x8_u")),
)

WORDS = (
    (0xFD0080, "", "v:v", "i16x8.abs i16x8.neg"),
    (0xFD0082, "", "vv:v", "i16x8.q15mulr_sat_s"),
    (0xFD0083, "", "v:i", "i16x8.all_true i16x8.bitmask"),
    (0xFD0085, "", "vv:v", "i16x8.narrow_i32x4_s i16x8.narrow_i32x4_u"),
    (0xFD0087, "", "v:v", each("i16x8", _HALVES.format("i8x16"))),
    (0xFD008B, "", "vi:v", "i16x8.shl i16x8.shr_s i16x8.shr_u"),
    (0xFD008E, "", "vv:v", each("i16x8", _ARITHMETIC)),
    (0xFD0094, "", "v:v", "f64x2.nearest"),
    (0xFD0095, "", "vv:v", each("i16x8", "mul min_s min_u max_s max_u")),
    (0xFD009B, "", "vv:v", "i16x8.avgr_u"),
    (0xFD009C, "", "vv:v", each("i16x8", _PRODUCTS.format("i8x16"))),
    (0xFD00A0, "", "v:v", "i32x4.abs i32x4.neg"),
    (0xFD00A3, "", "v:i", "i32x4.all_true i32x4.bitmask"),
    (0xFD00A7, "", "v:v", each("i32x4", _HALVES.format("i16x8"))),
    (0xFD00AB, "", "vi:v", "i32x4.shl i32x4.shr_s i32x4.shr_u"),
    (0xFD00AE, "", "vv:v", "i32x4.add"),
    (0xFD00B1, "", "vv:v", "i32x4.sub"),
    (0xFD00B5, "", "vv:v", each("i32x4", "mul min_s min_u max_s max_u dot_i16x8_s")),
    (0xFD00BC, "", "vv:v", each("i32x4", _PRODUCTS.format("i16x8"))),
    (0xFD00C0, "", "v:v", "i64x2.abs i64x2.neg"),
    (0xFD00C3, "", "v:i", "i64x2.all_true i64x2.bitmask"),
    (0xFD00C7, "", "v:v", each("i64x2", _HALVES.format("i32x4"))),
    (0xFD00CB, "", "vi:v", "i64x2.shl i64x2.shr_s i64x2.shr_u"),
    (0xFD00CE, "", "vv:v", "i64x2.add"),
    (0xFD00D1, "", "vv:v", "i64x2.sub"),
    (0xFD00D5, "", "vv:v", each("i64x2", "mul eq ne lt_s gt_s le_s ge_s")),
    (0xFD00DC, "", "vv:v", each("i64x2", _PRODUCTS.format("i32x4"))),
)

FLOATS = (
    (0xFD00E0, "", "v:v", "f32x4.abs f32x4.neg"),
    (0xFD00E3, "", "v:v", "f32x4.sqrt"),
    (0xFD00E4, "", "vv:v", each("f32x4", _BINARY_FLOAT)),
    (0xFD00EC, "", "v:v", "f64x2.abs f64x2.neg"),
    (0xFD00EF, "", "v:v", "f64x2.sqrt"),
    (0xFD00F0, "", "vv:v", each("f64x2", _BINARY_FLOAT)),
    (0xFD00F8, "", "v:v", "i32x4.trunc_sat_f32x4_s i32x4.trunc_sat_f32x4_u"),
    (0xFD00FA, "", "v:v", "f32x4.convert_i32x4_s f32x4.convert_i32x4_u"),
    (0xFD00FC, "", "v:v", "i32x4.trunc_sat_f64x2_s_zero i32x4.trunc_sat_f64x2_u_zero"),
    (0xFD00FE, "", "v:v", "f64x2.convert_low_i32x4_s f64x2.convert_low_i32x4_u"),
)

RELAXED = (
    (0xFD0100, "", "vv:v", "i8x16.relaxed_swizzle"),
    (0xFD0101, "", "v:v", "i32x4.relaxed_trunc_f32x4_s i32x4.relaxed_trunc_f32x4_u"),
    (0xFD0103, "", "v:v", "i32x4.relaxed_trunc_f64x2_s_zero i32x4.relaxed_trunc_f64x2_u_zero"),
    (0xFD0105, "", "vvv:v", "f32x4.relaxed_madd f32x4.relaxed_nmadd"),
    (0xFD0107, "", "vvv:v", "f64x2.relaxed_madd f64x2.relaxed_nmadd"),
    (0xFD0109, "", "vvv:v", "i8x16.relaxed_laneselect i16x8.relaxed_laneselect"),
    (0xFD010B, "", "vvv:v", "i32x4.relaxed_laneselect i64x2.relaxed_laneselect"),
    (0xFD010D, "", "vv:v", "f32x4.relaxed_min f32x4.relaxed_max"),
    (0xFD010F, "", "vv:v", "f64x2.relaxed_min f64x2.relaxed_max"),
    (0xFD0111, "", "vv:v", "i16x8.relaxed_q15mulr_s i16x8.relaxed_dot_i8x16_i7x16_s"),
    (0xFD0113, "", "vvv:v", "i32x4.relaxed_dot_i8x16_i7x16_add_s"),
)

SIMD: tuple[tuple[int, str, str, str], ...] = (
    *(*MEMORY, *LANES, *BITS, *BYTES, *WORDS, *FLOATS, *RELAXED),
)
