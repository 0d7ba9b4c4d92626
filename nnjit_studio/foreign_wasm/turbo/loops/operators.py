"""Operators that a value graph may hold: without effects, and without traps except of loads.

Opcodes are ``prefix << 16 | number``; after the core specification, appendix "Index of
Instructions", with relaxed SIMD. Integer divisions and float-to-integer conversions that trap are
left out: an order of values must not decide which of two traps comes first.
"""

from __future__ import annotations

from collections.abc import Iterable

I32, I64, F32, F64, V128 = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B
NUMBERS = frozenset((I32, I64, F32, F64, V128))

LOOP, END, BR_IF, DROP, SELECT = 0x03, 0x0B, 0x0D, 0x1A, 0x1B
LOCAL_GET, LOCAL_SET, LOCAL_TEE = 0x20, 0x21, 0x22
SIMD = 0xFD0000
V128_LOAD, LOAD32_SPLAT, V128_CONST, SHUFFLE = SIMD, SIMD | 9, SIMD | 12, SIMD | 13
F32X4_ADD, F32X4_SUB, F32X4_MUL = SIMD | 228, SIMD | 229, SIMD | 230
F64X2_ADD, F64X2_SUB, F64X2_MUL = SIMD | 240, SIMD | 241, SIMD | 242
F32X4_MADD, F32X4_NMADD, F64X2_MADD, F64X2_NMADD = (SIMD | n for n in range(0x105, 0x109))

CONSTANTS = {0x41: I32, 0x42: I64, 0x43: F32, 0x44: F64, V128_CONST: V128}
"""Result of each constant."""


def _simd(*numbers: int | range) -> Iterable[int]:
    for n in numbers:
        yield from (SIMD | k for k in (n if isinstance(n, range) else (n,)))


LOADS: dict[int, tuple[int, int]] = {
    **{0x28: (I32, 4), 0x29: (I64, 8), 0x2A: (F32, 4), 0x2B: (F64, 8)},
    **dict(zip(range(0x2C, 0x30), ((I32, 1), (I32, 1), (I32, 2), (I32, 2)), strict=True)),
    **dict(zip(range(0x30, 0x36), ((I64, n) for n in (1, 1, 2, 2, 4, 4)), strict=True)),
    V128_LOAD: (V128, 16),
    **{code: (V128, 8) for code in _simd(range(1, 7))},
    **dict(zip(_simd(range(7, 11)), ((V128, n) for n in (1, 2, 4, 8)), strict=True)),
    **dict(zip(_simd(92, 93), ((V128, n) for n in (4, 8)), strict=True)),
}
"""Result and bytes read of each load that takes an address alone."""

_UNARY: dict[int, Iterable[int]] = {
    I32: (
        *(0x45, 0x50, *range(0x67, 0x6A), 0xA7, 0xBC, 0xC0, 0xC1),
        *_simd(21, 22, 24, 25, 27, 83, 99, 100, 131, 132, 163, 164, 195, 196),
        *(0xFC0000 | n for n in range(4)),
    ),
    I64: (
        *(*range(0x79, 0x7C), 0xAC, 0xAD, 0xBD, *range(0xC2, 0xC5), SIMD | 29),
        *(0xFC0000 | n for n in range(4, 8)),
    ),
    F32: (*range(0x8B, 0x92), *range(0xB2, 0xB7), 0xBE, SIMD | 31),
    F64: (*range(0x99, 0xA0), *range(0xB7, 0xBC), 0xBF, SIMD | 33),
    V128: (
        *_simd(range(15, 21), 77, range(94, 99), range(103, 107), 116, 117, 122),
        *_simd(range(124, 130), range(135, 139), 148, 160, 161, range(167, 171), 192, 193),
        *_simd(range(199, 203), 224, 225, 227, 236, 237, 239, range(248, 256)),
        *_simd(range(0x101, 0x105)),
    ),
}
"""By result: operators of one operand."""
_BINARY: dict[int, Iterable[int]] = {
    I32: (*range(0x46, 0x50), *range(0x51, 0x67), *range(0x6A, 0x6D), *range(0x71, 0x79)),
    I64: (*range(0x7C, 0x7F), *range(0x83, 0x8B)),
    F32: tuple(range(0x92, 0x99)),
    F64: tuple(range(0xA0, 0xA7)),
    V128: (
        *_simd(13, 14, 23, 26, 28, 30, 32, 34, range(35, 77), range(78, 82), 101, 102),
        *_simd(range(107, 116), range(118, 122), 123, 130, 133, 134, range(139, 148)),
        *_simd(range(149, 154), range(155, 160), range(171, 175), 177, range(181, 187)),
        *_simd(range(188, 192), range(203, 207), 209, 213, range(214, 224), range(228, 236)),
        *_simd(range(240, 248), 0x100, range(0x10D, 0x113)),
    ),
}
"""By result: operators of two operands."""
_TERNARY = tuple(_simd(82, range(0x105, 0x10D), 0x113))

OPERATORS: dict[int, tuple[int, int]] = {
    **{code: (1, result) for result, codes in _UNARY.items() for code in codes},
    **{code: (2, result) for result, codes in _BINARY.items() for code in codes},
    **{code: (3, V128) for code in _TERNARY},
}
"""Number of operands and result of each operator; of those that move lanes too."""
