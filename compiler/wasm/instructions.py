"""The instruction table: name -> opcode bytes, and how an access of memory is aligned."""

from __future__ import annotations

import re

from nnjit_studio.wasm_file.opcodes import CODES, code_bytes

ROUNDED_PRODUCT = "f32x4.mul_rounded"
"""A product that no pass fuses with an addition."""
VALUE_TYPES = {"i32": b"\x7f", "i64": b"\x7e", "f32": b"\x7d", "v128": b"\x7b"}
_ACCESS = re.compile(r"(\w+)\.(?:load|store)(\d*)")


def _shuffle(*lanes: int) -> bytes:
    """A shuffle of four 32-bit lanes out of eight; its immediate is part of the opcode here."""
    return b"\xfd\x0d" + bytes(4 * lane + i for lane in lanes for i in range(4))


def _interleave(first: int) -> bytes:
    """A shuffle of 16-bit lanes: ``first`` and the three behind it, of both vectors in turns."""
    lanes = (lane for i in range(first, first + 4) for lane in (i, i + 8))
    return b"\xfd\x0d" + bytes(2 * lane + i for lane in lanes for i in range(2))


OPCODES: dict[str, bytes] = {
    **{name: code_bytes(code) for name, code in CODES.items()},
    "i32x4.shuffle_0257": _shuffle(0, 2, 5, 7),
    "i32x4.shuffle_0246": _shuffle(0, 2, 4, 6),
    "i32x4.shuffle_1357": _shuffle(1, 3, 5, 7),
    "i32x4.shuffle_2323": _shuffle(2, 3, 2, 3),
    ROUNDED_PRODUCT: code_bytes(CODES["f32x4.mul"]),
    "i16x8.interleave_low": _interleave(0),
    "i16x8.interleave_high": _interleave(4),
}


def _alignment(name: str, kind: str, bits: str) -> int:
    """Log2 of the bytes of an element: buffers promise no more than that."""
    if name in ("v128.load64_zero", "v128.store64_lane"):
        return 2  # of two elements
    return (int(bits or {"i64": 64, "f64": 64}.get(kind, 32)) // 8).bit_length() - 1


MEMORY: dict[str, tuple[bytes, int]] = {
    name: (OPCODES[name], _alignment(name, found[1], found[2]))
    for name in CODES
    if (found := _ACCESS.match(name))
}
"""Opcode and alignment hint of each access."""
