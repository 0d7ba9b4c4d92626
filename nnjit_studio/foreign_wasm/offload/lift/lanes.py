"""Vector instructions on four float32 lanes; those on other lanes are not known."""

from __future__ import annotations

import struct
from typing import Protocol

from nnjit_studio.foreign_wasm.offload.lift.integers import integers, why
from nnjit_studio.foreign_wasm.offload.lift.terms import (
    NOTHING,
    Const,
    Expr,
    Lanes,
    Linear,
    Op,
    Unknown,
    Value,
    as_integer,
    is_float,
    is_too_large,
    number,
    op,
)

UNARY = {
    "abs": "abs", "neg": "neg", "sqrt": "sqrt", "ceil": "ceil", "floor": "floor",
    "trunc": "trunc", "nearest": "round",
}  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "min", "max", "pmin", "pmax", "eq", "ne", "lt", "gt", "le", "ge",
    "relaxed_min", "relaxed_max",
)  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "gt", "le", "ge")

_WORDS = 4


class Registers(Protocol):
    """What a vector instruction works on."""

    def pop(self) -> Value: ...
    def push(self, value: Value) -> None: ...
    def load(self, address: Linear) -> Value: ...
    def store(self, address: Linear, value: Value) -> None: ...
    def address(self, value: Value, offset: int) -> Linear | Unknown: ...


def vector_operation(m: Registers, name: str, offset: int, literal: object) -> bool:
    """Run a vector instruction, if it is one of float32 lanes."""
    kind, _, word = name.partition(".")
    if name in ("v128.load", "v128.load32_splat", "v128.load32_zero"):
        _load(m, word, offset)
    elif name == "v128.store":
        _store(m, offset)
    elif name == "v128.store32_lane":
        vector, address = m.pop(), m.address(m.pop(), offset)
        _put(m, address, 0, _lane(vector, int(str(literal))))
    elif name == "v128.load32_lane":
        _load_lane(m, offset, int(str(literal)))
    elif name == "v128.const":
        assert isinstance(literal, bytes)
        m.push(Lanes(tuple(Const(x) for x in struct.unpack("<4f", literal))))
    elif name == "i8x16.shuffle":
        assert isinstance(literal, (bytes, tuple))
        _shuffle(m, tuple(literal))
    elif name == "f32x4.splat":
        value = m.pop()
        m.push(_gathered([value] * _WORDS))
    elif name == "f32x4.extract_lane":
        m.push(_lane(m.pop(), int(str(literal))))
    elif name in ("f32x4.replace_lane", "i32x4.replace_lane"):
        value, vector = m.pop(), m.pop()
        parts = [_lane(vector, i) for i in range(_WORDS)]
        parts[int(str(literal))] = value
        m.push(_gathered(parts))
    elif kind == "f32x4" and (word in BINARY or word in UNARY):
        m.push(_lanewise(word, [m.pop() for _ in range(2 if word in BINARY else 1)][::-1]))
    elif name in ("f32x4.relaxed_madd", "f32x4.relaxed_nmadd"):
        c, b, a = m.pop(), m.pop(), m.pop()
        product = _lanewise("mul", [a, b])
        m.push(_lanewise("add", [c, product]) if "nmadd" not in word else
               _lanewise("sub", [c, product]))  # fmt: skip
    elif name == "i32x4.splat":
        m.push(_gathered([m.pop()] * _WORDS))
    elif name == "i32x4.extract_lane":
        m.push(_integer(_lane(m.pop(), int(str(literal)))))
    elif name in ("i32x4.add", "i32x4.sub", "i32x4.mul", "i32x4.shl"):
        b, a = m.pop(), m.pop()
        m.push(_integers(word, a, b))
    elif name in ("v128.and", "v128.andnot", "v128.bitselect"):
        m.push(_masked(m, word))
    else:
        return False
    return True


def _load(m: Registers, word: str, offset: int) -> None:
    where = m.address(m.pop(), offset)
    if isinstance(where, Unknown):
        m.push(where)
    elif word == "load":
        m.push(_gathered([m.load(where.plus(number(4 * i))) for i in range(_WORDS)]))
    else:
        first = m.load(where)
        rest = NOTHING if word == "load32_zero" else first
        m.push(_gathered([first, rest, rest, rest]))


def _load_lane(m: Registers, offset: int, lane: int) -> None:
    vector, where = m.pop(), m.address(m.pop(), offset)
    parts = [_lane(vector, i) for i in range(_WORDS)]
    parts[lane] = where if isinstance(where, Unknown) else m.load(where)
    m.push(_gathered(parts))


def _store(m: Registers, offset: int) -> None:
    vector, where = m.pop(), m.address(m.pop(), offset)
    for i in range(_WORDS):
        _put(m, where, 4 * i, _lane(vector, i))


def _put(m: Registers, where: Linear | Unknown, apart: int, value: Value) -> None:
    if isinstance(where, Unknown):
        m.store(Linear(), where)
    elif isinstance(value, Op) and value.name in COMPARISONS:
        m.store(where, Unknown("integer"))
    else:
        m.store(where.plus(number(apart)), value)


def _lane(value: Value, lane: int) -> Value:
    if isinstance(value, Lanes):
        return value.lanes[lane]
    return value if isinstance(value, Unknown) else Unknown("integer")


def _gathered(parts: list[Value]) -> Value:
    if all(is_float(p) or isinstance(p, Linear) for p in parts):
        return Lanes(tuple(parts))  # type: ignore[arg-type]
    return next((p for p in parts if isinstance(p, Unknown)), Unknown("integer"))


def _shuffle(m: Registers, places: tuple[int, ...]) -> None:
    b, a = m.pop(), m.pop()
    both = [_lane(a, i) for i in range(_WORDS)] + [_lane(b, i) for i in range(_WORDS)]
    first = places[::_WORDS]
    whole = all(p % 4 == 0 and places[4 * i : 4 * i + 4] == (p, p + 1, p + 2, p + 3)
                for i, p in enumerate(first))  # fmt: skip
    m.push(_gathered([both[p // 4] for p in first]) if whole else Unknown("integer"))


def _integer(value: Value) -> Value:
    found = as_integer(value)
    return Unknown(why(value)) if found is None else found


def _integers(word: str, a: Value, b: Value) -> Value:
    rows = ((_lane(a, i), b if word == "shl" else _lane(b, i)) for i in range(_WORDS))
    return _gathered([integers(word, _integer(x), _integer(y)) for x, y in rows])


def _lanewise(word: str, vectors: list[Value]) -> Value:
    parts: list[Value] = []
    for i in range(_WORDS):
        args = [_lane(v, i) for v in vectors]
        wrong = next((a for a in args if not is_float(a)), None)
        parts.append(_operation(word, args) if wrong is None else wrong)  # type: ignore[arg-type]
    if any(is_too_large(p) for p in parts):  # type: ignore[arg-type]
        return Unknown("size")
    return _gathered(parts)


def _operation(word: str, args: list[Expr]) -> Expr:
    a, b = args[0], args[-1]
    if word == "pmin":
        return op("select", op("lt", b, a), b, a)
    if word == "pmax":
        return op("select", op("lt", a, b), b, a)
    return op(UNARY.get(word, word.removeprefix("relaxed_")), *args)


def _masked(m: Registers, word: str) -> Value:
    """Selections by a comparison's lanes."""
    if word == "bitselect":
        mask, otherwise, then = m.pop(), m.pop(), m.pop()
    else:
        b, a = m.pop(), m.pop()
        zero = Lanes((NOTHING,) * _WORDS)
        mask, value = (a, b) if _is_mask(a) and word == "and" else (b, a)
        then, otherwise = (zero, value) if word == "andnot" else (value, zero)
    if not _is_mask(mask) or _is_mask(then) or _is_mask(otherwise):
        wrong = (v for v in (mask, then, otherwise) if isinstance(v, Unknown))
        return next(wrong, Unknown("integer"))
    parts: list[Value] = []
    for i in range(_WORDS):
        condition, x, y = (_lane(v, i) for v in (mask, then, otherwise))
        known = is_float(condition) and is_float(x) and is_float(y)
        parts.append(op("select", condition, x, y) if known else Unknown("integer"))  # type: ignore[arg-type]
    return _gathered(parts)


def _is_mask(value: Value) -> bool:
    return isinstance(value, Lanes) and all(
        isinstance(lane, Op) and lane.name in COMPARISONS for lane in value.lanes
    )
