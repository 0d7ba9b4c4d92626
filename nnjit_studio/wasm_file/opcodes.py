"""The instructions of Wasm, as one table.

After the core specification (release 3.0, appendix of instructions) and the
proposals for threads, legacy exceptions, stack switching, wide arithmetic,
shared-everything threads and custom descriptors. A row gives consecutive
opcodes: the first code, the shape of the immediates, the stack's types before
and after, and the names.

A shape has one letter for each immediate: ``u`` unsigned, ``s`` signed, ``4``
and ``8`` bytes of a float, ``b`` a byte, ``m`` a memory argument, ``V`` sixteen
bytes, ``L`` sixteen lanes, ``t`` block type, ``h`` heap type; and the lists
``v`` labels, ``T`` value types, ``c`` catch clauses, ``r`` handlers.

A stack type has one letter for each value: ``i`` i32, ``I`` i64, ``f`` f32,
``F`` f64, ``v`` v128, ``r`` reference; an empty signature means that the type
depends on the instruction's place, and memory addresses are written ``i``
although a 64-bit memory takes i64.
"""

from __future__ import annotations

from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.opcodes_simd import SIMD, each

Row = tuple[int, str, str, str]

_COMPARE = "eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
_COMPARE_FLOAT = "eq ne lt gt le ge"
_ARITHMETIC = "add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr"
_UNARY_FLOAT = "abs neg ceil floor trunc nearest sqrt"
_BINARY_FLOAT = "add sub mul div min max copysign"


CONTROL: tuple[Row, ...] = (
    (0x00, "", "", "unreachable"),
    (0x01, "", ":", "nop"),
    (0x02, "t", "", "block loop if"),
    (0x05, "", "", "else"),
    (0x06, "t", "", "try"),
    (0x07, "u", "", "catch throw rethrow"),
    (0x0A, "", "r:", "throw_ref"),
    (0x0B, "", "", "end"),
    (0x0C, "u", "", "br br_if"),
    (0x0E, "v", "", "br_table"),
    (0x0F, "", "", "return"),
    (0x10, "u", "", "call"),
    (0x11, "uu", "", "call_indirect"),
    (0x12, "u", "", "return_call"),
    (0x13, "uu", "", "return_call_indirect"),
    (0x14, "u", "", "call_ref return_call_ref"),
    (0x18, "u", "", "delegate"),
    (0x19, "", "", "catch_all"),
    (0x1A, "", "", "drop select"),
    (0x1C, "T", "", "select_typed"),
    (0x1F, "tc", "", "try_table"),
    (0x20, "u", "", "local.get local.set local.tee global.get global.set"),
    (0x25, "u", "i:r", "table.get"),
    (0x26, "u", "ir:", "table.set"),
    (0xD0, "h", ":r", "ref.null"),
    (0xD1, "", "r:i", "ref.is_null"),
    (0xD2, "u", ":r", "ref.func"),
    (0xD3, "", "rr:i", "ref.eq"),
    (0xD4, "", "r:r", "ref.as_non_null"),
    (0xD5, "u", "", "br_on_null br_on_non_null"),
    (0xE0, "u", "r:r", "cont.new"),
    (0xE1, "uu", "", "cont.bind"),
    (0xE2, "u", "", "suspend"),
    (0xE3, "ur", "", "resume"),
    (0xE4, "uur", "", "resume_throw"),
    (0xE5, "ur", "", "resume_throw_ref"),
    (0xE6, "uu", "", "switch"),
)

NUMERIC: tuple[Row, ...] = (
    (0x28, "m", "i:i", "i32.load"),
    (0x29, "m", "i:I", "i64.load"),
    (0x2A, "m", "i:f", "f32.load"),
    (0x2B, "m", "i:F", "f64.load"),
    (0x2C, "m", "i:i", "i32.load8_s i32.load8_u i32.load16_s i32.load16_u"),
    (0x30, "m", "i:I", each("i64", "load8_s load8_u load16_s load16_u load32_s load32_u")),
    (0x36, "m", "ii:", "i32.store"),
    (0x37, "m", "iI:", "i64.store"),
    (0x38, "m", "if:", "f32.store"),
    (0x39, "m", "iF:", "f64.store"),
    (0x3A, "m", "ii:", "i32.store8 i32.store16"),
    (0x3C, "m", "iI:", "i64.store8 i64.store16 i64.store32"),
    (0x3F, "u", ":i", "memory.size"),
    (0x40, "u", "i:i", "memory.grow"),
    (0x41, "s", ":i", "i32.const"),
    (0x42, "s", ":I", "i64.const"),
    (0x43, "4", ":f", "f32.const"),
    (0x44, "8", ":F", "f64.const"),
    (0x45, "", "i:i", "i32.eqz"),
    (0x46, "", "ii:i", each("i32", _COMPARE)),
    (0x50, "", "I:i", "i64.eqz"),
    (0x51, "", "II:i", each("i64", _COMPARE)),
    (0x5B, "", "ff:i", each("f32", _COMPARE_FLOAT)),
    (0x61, "", "FF:i", each("f64", _COMPARE_FLOAT)),
    (0x67, "", "i:i", "i32.clz i32.ctz i32.popcnt"),
    (0x6A, "", "ii:i", each("i32", _ARITHMETIC)),
    (0x79, "", "I:I", "i64.clz i64.ctz i64.popcnt"),
    (0x7C, "", "II:I", each("i64", _ARITHMETIC)),
    (0x8B, "", "f:f", each("f32", _UNARY_FLOAT)),
    (0x92, "", "ff:f", each("f32", _BINARY_FLOAT)),
    (0x99, "", "F:F", each("f64", _UNARY_FLOAT)),
    (0xA0, "", "FF:F", each("f64", _BINARY_FLOAT)),
    (0xA7, "", "I:i", "i32.wrap_i64"),
    (0xA8, "", "f:i", "i32.trunc_f32_s i32.trunc_f32_u"),
    (0xAA, "", "F:i", "i32.trunc_f64_s i32.trunc_f64_u"),
    (0xAC, "", "i:I", "i64.extend_i32_s i64.extend_i32_u"),
    (0xAE, "", "f:I", "i64.trunc_f32_s i64.trunc_f32_u"),
    (0xB0, "", "F:I", "i64.trunc_f64_s i64.trunc_f64_u"),
    (0xB2, "", "i:f", "f32.convert_i32_s f32.convert_i32_u"),
    (0xB4, "", "I:f", "f32.convert_i64_s f32.convert_i64_u"),
    (0xB6, "", "F:f", "f32.demote_f64"),
    (0xB7, "", "i:F", "f64.convert_i32_s f64.convert_i32_u"),
    (0xB9, "", "I:F", "f64.convert_i64_s f64.convert_i64_u"),
    (0xBB, "", "f:F", "f64.promote_f32"),
    (0xBC, "", "f:i", "i32.reinterpret_f32"),
    (0xBD, "", "F:I", "i64.reinterpret_f64"),
    (0xBE, "", "i:f", "f32.reinterpret_i32"),
    (0xBF, "", "I:F", "f64.reinterpret_i64"),
    (0xC0, "", "i:i", "i32.extend8_s i32.extend16_s"),
    (0xC2, "", "I:I", "i64.extend8_s i64.extend16_s i64.extend32_s"),
)

GC: tuple[Row, ...] = (
    (0xFB0000, "u", "", "struct.new struct.new_default"),
    (0xFB0002, "uu", "", "struct.get struct.get_s struct.get_u struct.set"),
    (0xFB0006, "u", "", "array.new array.new_default"),
    (0xFB0008, "uu", "", "array.new_fixed array.new_data array.new_elem"),
    (0xFB000B, "u", "", "array.get array.get_s array.get_u array.set"),
    (0xFB000F, "", "r:i", "array.len"),
    (0xFB0010, "u", "", "array.fill"),
    (0xFB0011, "uu", "", "array.copy array.init_data array.init_elem"),
    (0xFB0014, "h", "r:i", "ref.test ref.test_null"),
    (0xFB0016, "h", "r:r", "ref.cast ref.cast_null"),
    (0xFB0018, "buhh", "", "br_on_cast br_on_cast_fail"),
    (0xFB001A, "", "r:r", "any.convert_extern extern.convert_any"),
    (0xFB001C, "", "i:r", "ref.i31"),
    (0xFB001D, "", "r:i", "i31.get_s i31.get_u"),
    (0xFB0020, "u", "", "struct.new_desc struct.new_default_desc"),
    (0xFB0022, "u", "r:r", "ref.get_desc"),
    (0xFB0023, "h", "rr:r", "ref.cast_desc_eq ref.cast_desc_eq_null"),
    (0xFB0025, "buhh", "", "br_on_cast_desc_eq br_on_cast_desc_eq_fail"),
)

BULK: tuple[Row, ...] = (
    (0xFC0000, "", "f:i", "i32.trunc_sat_f32_s i32.trunc_sat_f32_u"),
    (0xFC0002, "", "F:i", "i32.trunc_sat_f64_s i32.trunc_sat_f64_u"),
    (0xFC0004, "", "f:I", "i64.trunc_sat_f32_s i64.trunc_sat_f32_u"),
    (0xFC0006, "", "F:I", "i64.trunc_sat_f64_s i64.trunc_sat_f64_u"),
    (0xFC0008, "uu", "iii:", "memory.init"),
    (0xFC0009, "u", ":", "data.drop"),
    (0xFC000A, "uu", "iii:", "memory.copy"),
    (0xFC000B, "u", "iii:", "memory.fill"),
    (0xFC000C, "uu", "iii:", "table.init"),
    (0xFC000D, "u", ":", "elem.drop"),
    (0xFC000E, "uu", "iii:", "table.copy"),
    (0xFC000F, "u", "ri:i", "table.grow"),
    (0xFC0010, "u", ":i", "table.size"),
    (0xFC0011, "u", "iri:", "table.fill"),
    (0xFC0012, "u", "ii:", "memory.discard"),
    (0xFC0013, "", "IIII:II", "i64.add128 i64.sub128"),
    (0xFC0015, "", "II:II", "i64.mul_wide_s i64.mul_wide_u"),
)

_WIDTHS = (
    ("i32.atomic.rmw", "i"),
    ("i64.atomic.rmw", "I"),
    ("i32.atomic.rmw8", "i"),
    ("i32.atomic.rmw16", "i"),
    ("i64.atomic.rmw8", "I"),
    ("i64.atomic.rmw16", "I"),
    ("i64.atomic.rmw32", "I"),
)


def _read_modify_write() -> tuple[Row, ...]:
    """Opcodes 0x1E to 0x4E: for each operation the seven widths."""
    rows: list[Row] = []
    for i, operation in enumerate(("add", "sub", "and", "or", "xor", "xchg", "cmpxchg")):
        for j, (prefix, value) in enumerate(_WIDTHS):
            unsigned = "_u" if prefix[-1].isdigit() else ""
            values = value * (2 if operation == "cmpxchg" else 1)
            name = f"{prefix}.{operation}{unsigned}"
            rows.append((0xFE001E + 7 * i + j, "m", f"i{values}:{value}", name))
    return tuple(rows)


_ATOMIC_FIELD = "rmw.add rmw.sub rmw.and rmw.or rmw.xor rmw.xchg rmw.cmpxchg"

ATOMIC: tuple[Row, ...] = (
    (0xFE0000, "m", "ii:i", "memory.atomic.notify"),
    (0xFE0001, "m", "iiI:i", "memory.atomic.wait32"),
    (0xFE0002, "m", "iII:i", "memory.atomic.wait64"),
    (0xFE0003, "b", ":", "atomic.fence"),
    (0xFE0010, "m", "i:i", "i32.atomic.load"),
    (0xFE0011, "m", "i:I", "i64.atomic.load"),
    (0xFE0012, "m", "i:i", "i32.atomic.load8_u i32.atomic.load16_u"),
    (0xFE0014, "m", "i:I", "i64.atomic.load8_u i64.atomic.load16_u i64.atomic.load32_u"),
    (0xFE0017, "m", "ii:", "i32.atomic.store"),
    (0xFE0018, "m", "iI:", "i64.atomic.store"),
    (0xFE0019, "m", "ii:", "i32.atomic.store8 i32.atomic.store16"),
    (0xFE001B, "m", "iI:", "i64.atomic.store8 i64.atomic.store16 i64.atomic.store32"),
    *_read_modify_write(),
    (0xFE004F, "bu", "", each("global.atomic", "get set " + _ATOMIC_FIELD)),
    (0xFE0058, "bu", "", each("table.atomic", "get set rmw.xchg rmw.cmpxchg")),
    (0xFE005C, "buu", "", each("struct.atomic", "get get_s get_u set " + _ATOMIC_FIELD)),
    (0xFE0067, "bu", "", each("array.atomic", "get get_s get_u set " + _ATOMIC_FIELD)),
    (0xFE0072, "", "i:r", "ref.i31_shared"),
)

NAMES: dict[int, str] = {}
"""Name of every known opcode; a prefix stands in bits 16 to 23."""

SHAPES: dict[int, str] = {}
SIGNATURES: dict[int, tuple[str, str]] = {}
"""Types taken and given, for opcodes whose type does not depend on their place."""

for _first, _shape, _signature, _names in (*CONTROL, *NUMERIC, *GC, *BULK, *SIMD, *ATOMIC):
    for _i, _name in enumerate(_names.split()):
        NAMES[_first + _i] = _name
        SHAPES[_first + _i] = _shape
        if _signature:
            _taken, _given = _signature.split(":")
            SIGNATURES[_first + _i] = (_taken, _given)

CODES: dict[str, int] = {name: code for code, name in NAMES.items()}
"""The opcode of a name."""


def code_bytes(code: int) -> bytes:
    """An opcode as it stands in a module."""
    prefix, number = code >> 16, code & 0xFFFF
    return bytes((prefix,)) + leb.unsigned(number) if prefix else bytes((number,))


def codes(names: str) -> frozenset[int]:
    """The opcodes of names, which stand with blanks between them."""
    return frozenset(CODES[name] for name in names.split())
