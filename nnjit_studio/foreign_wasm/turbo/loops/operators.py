"""Operators that a value graph may hold: without effects, and without traps except of loads.

Opcodes are ``prefix << 16 | number``. Integer divisions and float-to-integer conversions that trap
are left out: an order of values must not decide which of two traps comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nnjit_studio.wasm_file.opcodes import CODES, NAMES, SIGNATURES

I32, I64, F32, F64, V128 = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B
NUMBERS = frozenset((I32, I64, F32, F64, V128))
_TYPES = dict(zip("iIfFv", (I32, I64, F32, F64, V128), strict=True))
_BYTES = {I32: 4, I64: 8, F32: 4, F64: 8, V128: 16}

LOOP, END, BR_IF = CODES["loop"], CODES["end"], CODES["br_if"]
DROP, SELECT = CODES["drop"], CODES["select"]
LOCAL_GET, LOCAL_SET, LOCAL_TEE = (CODES[f"local.{word}"] for word in ("get", "set", "tee"))
V128_LOAD, LOAD32_SPLAT = CODES["v128.load"], CODES["v128.load32_splat"]
SHUFFLE = CODES["i8x16.shuffle"]
F32X4_ADD, F32X4_SUB, F32X4_MUL = (CODES[f"f32x4.{word}"] for word in ("add", "sub", "mul"))
F64X2_ADD, F64X2_SUB, F64X2_MUL = (CODES[f"f64x2.{word}"] for word in ("add", "sub", "mul"))
F32X4_MADD, F32X4_NMADD = CODES["f32x4.relaxed_madd"], CODES["f32x4.relaxed_nmadd"]
F64X2_MADD, F64X2_NMADD = CODES["f64x2.relaxed_madd"], CODES["f64x2.relaxed_nmadd"]

_LOAD = re.compile(r"\w+\.load(\d*)x?(\d*)(?!\w*_lane)")
_TRAPS_OR_ACTS = re.compile(r"memory\.|table\.|.*(atomic|load|store|div_|rem_)|i\d\d\.trunc_f")


def _typed() -> Iterator[tuple[int, str, tuple[str, int]]]:
    """Code, name, and signature of every instruction that leaves one number."""
    for code, (taken, given) in SIGNATURES.items():
        if given in _TYPES and set(taken) <= _TYPES.keys():
            yield code, NAMES[code], (taken, _TYPES[given])


def _loaded(bits: str, times: str, result: int) -> int:
    """Bytes that a load reads, by the numbers in its name."""
    return int(bits) // 8 * int(times or 1) if bits else _BYTES[result]


CONSTANTS = {code: result for code, name, (_, result) in _typed() if name.endswith(".const")}
"""Result of each constant."""

LOADS: dict[int, tuple[int, int]] = {
    code: (result, _loaded(found[1], found[2], result))
    for code, name, (_, result) in _typed()
    if (found := _LOAD.match(name))
}
"""Result and bytes read of each load that takes an address alone."""

OPERATORS: dict[int, tuple[int, int]] = {
    code: (len(taken), result)
    for code, name, (taken, result) in _typed()
    if taken and not _TRAPS_OR_ACTS.match(name)
}
"""Number of operands and result of each operator; of those that move lanes too."""
