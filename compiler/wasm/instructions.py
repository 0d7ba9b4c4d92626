"""The instruction table: name -> opcode bytes and type of the result (core spec 3.0, 5.4)."""

from __future__ import annotations

from nnjit_studio.wasm_file.leb import unsigned

_COMPARE_INT = ("eq", "ne", "lt_s", "lt_u", "gt_s", "gt_u", "le_s", "le_u", "ge_s", "ge_u")
_COMPARE_FLOAT = ("eq", "ne", "lt", "gt", "le", "ge")
_ARITHMETIC_INT = (
    "clz", "ctz", "popcnt", "add", "sub", "mul", "div_s", "div_u", "rem_s", "rem_u",
    "and", "or", "xor", "shl", "shr_s", "shr_u",
)  # fmt: skip
_ARITHMETIC_FLOAT = (
    "abs", "neg", "ceil", "floor", "trunc", "nearest", "sqrt",
    "add", "sub", "mul", "div", "min", "max", "copysign",
)  # fmt: skip


def _row(start: int, names: tuple[str, ...], prefix: str) -> dict[str, int]:
    return {f"{prefix}.{name}": start + i for i, name in enumerate(names)}


_PLAIN: dict[str, int] = {
    **_row(0x46, _COMPARE_INT, "i32"),
    **_row(0x51, _COMPARE_INT, "i64"),
    **_row(0x5B, _COMPARE_FLOAT, "f32"),
    **_row(0x67, _ARITHMETIC_INT, "i32"),
    **_row(0x79, _ARITHMETIC_INT, "i64"),
    **_row(0x8B, _ARITHMETIC_FLOAT, "f32"),
    "select": 0x1B,
    "i32.eqz": 0x45,
    "i64.eqz": 0x50,
    "i32.wrap_i64": 0xA7,
    "i64.extend_i32_s": 0xAC,
    "i64.extend_i32_u": 0xAD,
    "f32.convert_i32_s": 0xB2,
    "f32.convert_i32_u": 0xB3,
    "f32.convert_i64_s": 0xB4,
    "i32.reinterpret_f32": 0xBC,
    "f32.reinterpret_i32": 0xBE,
    "i32.extend8_s": 0xC0,
}

_SATURATING: dict[str, int] = {"i32.trunc_sat_f32_s": 0, "i64.trunc_sat_f32_s": 4}

_SIMD: dict[str, int] = {
    **_row(0x37, _COMPARE_INT, "i32x4"),
    **_row(0x41, _COMPARE_FLOAT, "f32x4"),
    **_row(0x4D, ("not", "and", "andnot", "or", "xor", "bitselect"), "v128"),
    **_row(0x67, ("ceil", "floor", "trunc", "nearest"), "f32x4"),
    **_row(0xE4, ("add", "sub", "mul", "div", "min", "max", "pmin", "pmax"), "f32x4"),
    "i8x16.swizzle": 0x0E,
    "i32x4.splat": 0x11,
    "i64x2.splat": 0x12,
    "f32x4.splat": 0x13,
    "i32x4.extract_lane": 0x1B,
    "i32x4.replace_lane": 0x1C,
    "f32x4.extract_lane": 0x1F,
    "f32x4.replace_lane": 0x20,
    "i16x8.extend_low_i8x16_s": 0x87,
    "i16x8.extend_low_i8x16_u": 0x89,
    "i8x16.narrow_i16x8_u": 0x66,
    "i16x8.narrow_i32x4_s": 0x85,
    "i16x8.narrow_i32x4_u": 0x86,
    "i32x4.extend_low_i16x8_s": 0xA7,
    "i32x4.extend_low_i16x8_u": 0xA9,
    "i32x4.neg": 0xA1,
    "i32x4.abs": 0xA0,
    "i32x4.shl": 0xAB,
    "i32x4.shr_s": 0xAC,
    "i32x4.shr_u": 0xAD,
    "i32x4.add": 0xAE,
    "i32x4.sub": 0xB1,
    "i32x4.mul": 0xB5,
    "i32x4.dot_i16x8_s": 0xBA,
    "i32x4.min_s": 0xB6,
    "i32x4.max_s": 0xB8,
    "f32x4.abs": 0xE0,
    "f32x4.neg": 0xE1,
    "f32x4.sqrt": 0xE3,
    "i32x4.trunc_sat_f32x4_s": 0xF8,
    "f32x4.convert_i32x4_s": 0xFA,
    "i8x16.relaxed_swizzle": 0x100,
    "f32x4.relaxed_madd": 0x105,
    "f32x4.relaxed_nmadd": 0x106,
    "i32x4.relaxed_dot_i8x16_i7x16_add_s": 0x113,
}


def _shuffle(*lanes: int) -> bytes:
    """A shuffle of four 32-bit lanes out of eight; its immediate is part of the opcode here."""
    return b"\xfd\x0d" + bytes(4 * lane + i for lane in lanes for i in range(4))


ROUNDED_PRODUCT = "f32x4.mul_rounded"
"""A product that no pass fuses with an addition."""


def _interleave(first: int) -> bytes:
    """A shuffle of 16-bit lanes: ``first`` and the three behind it, of both vectors in turns."""
    lanes = (lane for i in range(first, first + 4) for lane in (i, i + 8))
    return b"\xfd\x0d" + bytes(2 * lane + i for lane in lanes for i in range(2))


OPCODES: dict[str, bytes] = {
    **{name: bytes((code,)) for name, code in _PLAIN.items()},
    **{name: b"\xfc" + unsigned(code) for name, code in _SATURATING.items()},
    **{name: b"\xfd" + unsigned(code) for name, code in _SIMD.items()},
    "i32x4.shuffle_0257": _shuffle(0, 2, 5, 7),
    "i32x4.shuffle_0246": _shuffle(0, 2, 4, 6),
    "i32x4.shuffle_1357": _shuffle(1, 3, 5, 7),
    "i32x4.shuffle_2323": _shuffle(2, 3, 2, 3),
    ROUNDED_PRODUCT: b"\xfd" + unsigned(_SIMD["f32x4.mul"]),
    "i16x8.interleave_low": _interleave(0),
    "i16x8.interleave_high": _interleave(4),
}

# Opcode and alignment hint (log2 bytes); buffers promise the alignment of their element only.
MEMORY: dict[str, tuple[bytes, int]] = {
    "i32.load": (b"\x28", 2),
    "i64.load": (b"\x29", 3),
    "f32.load": (b"\x2a", 2),
    "i32.load8_s": (b"\x2c", 0),
    "i32.load8_u": (b"\x2d", 0),
    "i32.load16_u": (b"\x2f", 1),
    "i32.store": (b"\x36", 2),
    "i64.store": (b"\x37", 3),
    "f32.store": (b"\x38", 2),
    "i32.store8": (b"\x3a", 0),
    "i32.store16": (b"\x3b", 1),
    "v128.load": (b"\xfd\x00", 2),
    "v128.load8x8_s": (b"\xfd\x01", 0),
    "v128.load8x8_u": (b"\xfd\x02", 0),
    "v128.load16x4_s": (b"\xfd\x03", 1),
    "v128.load16_splat": (b"\xfd\x08", 1),
    "v128.load32_splat": (b"\xfd\x09", 2),
    "v128.load64_splat": (b"\xfd\x0a", 3),
    "v128.store": (b"\xfd\x0b", 2),
    "v128.load16_lane": (b"\xfd\x55", 1),
    "v128.load32_lane": (b"\xfd\x56", 2),
    "v128.store32_lane": (b"\xfd\x5a", 2),
    "v128.store64_lane": (b"\xfd\x5b", 2),
    "v128.load32_zero": (b"\xfd\x5c", 2),
    "v128.load64_zero": (b"\xfd\x5d", 2),
}

VALUE_TYPES = {"i32": b"\x7f", "i64": b"\x7e", "f32": b"\x7d", "v128": b"\x7b"}
