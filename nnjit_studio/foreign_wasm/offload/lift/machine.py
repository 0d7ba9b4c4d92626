"""Straight-line Wasm on symbolic values: integers as affine forms, float32 as expressions."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnjit_studio.foreign_wasm.offload.lift.integers import integers, why
from nnjit_studio.foreign_wasm.offload.lift.lanes import vector_operation
from nnjit_studio.foreign_wasm.offload.lift.terms import (
    Atom,
    Compare,
    Const,
    Linear,
    Load,
    Unknown,
    Value,
    is_float,
    is_too_large,
    number,
    op,
)
from nnjit_studio.wasm_file.opcodes import SIGNATURES

F32 = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "min": "min", "max": "max",
    "lt": "lt", "gt": "gt", "le": "le", "ge": "ge", "eq": "eq", "ne": "ne",
    "abs": "abs", "neg": "neg", "sqrt": "sqrt", "ceil": "ceil", "floor": "floor",
    "trunc": "trunc", "nearest": "round",
}  # fmt: skip
"""Operations on float32, and their names in tensor IR."""

MOST_STEPS = 400_000

_INTEGER_COMPARE = ("eq", "ne", "lt_s", "lt_u", "gt_s", "gt_u", "le_s", "le_u", "ge_s", "ge_u")
_NEGATED = {
    "eq": "ne", "ne": "eq", "lt_s": "ge_s", "ge_s": "lt_s", "gt_s": "le_s", "le_s": "gt_s",
    "lt_u": "ge_u", "ge_u": "lt_u", "gt_u": "le_u", "le_u": "gt_u",
}  # fmt: skip


@dataclass(frozen=True)
class Store:
    """A float32 stored; ``order`` counts the accesses of memory until it.

    ``loops`` are those around it within the nest, outermost first, with their trip counts.
    """

    address: Linear
    value: Value
    order: int
    loops: tuple[tuple[Atom, int], ...] = ()


@dataclass
class Machine:
    """Locals, stack, and what was done to memory.

    Attributes
    ----------
    loads
        Where memory was read, with the order of the access.
    ranges
        Forms that were taken not to wrap around 2**32, with the bounds that they must keep.
    budget
        Instructions that may still be run, in one box for a whole function.
    """

    locals: list[Value]
    stack: list[Value] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    loads: list[tuple[Linear, int]] = field(default_factory=list)
    order: int = 0
    ranges: list[tuple[Linear, int, int]] = field(default_factory=list)
    budget: list[int] = field(default_factory=lambda: [MOST_STEPS])

    def pop(self) -> Value:
        return self.stack.pop() if self.stack else Unknown("instruction")

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def load(self, address: Linear) -> Value:
        """The float32 there: what this iteration stored, or what memory holds."""
        self.order += 1
        for store in reversed(self.stores):
            if store.address == address and not store.loops:
                return store.value
            apart = store.address.plus(address, -1)
            if not apart.terms and abs(apart.constant) < 4:
                return Unknown("aliasing")
        self.loads.append((address, self.order))
        return Load(address)

    def store(self, address: Linear, value: Value) -> None:
        self.order += 1
        self.stores = [s for s in self.stores if s.address != address or s.loops]
        self.stores.append(Store(address, value, self.order))

    def step(self, name: str, code: int, offset: int, literal: object) -> None:
        """Run one instruction that neither branches nor calls.

        Parameters
        ----------
        offset
            Of a memory access.
        literal
            The constant of a ``const``, the lanes of a shuffle, the lane of an access to one.
        """
        kind, _, word = name.partition(".")
        if kind == "i32" and word == "const":
            self.push(number(int(str(literal))))
        elif kind == "i32":
            self._integer(word, code, offset)
        elif kind == "f32":
            self._float(word, code, offset, literal)
        elif kind in ("v128", "f32x4", "i8x16", "i32x4") and vector_operation(
            self, name, offset, literal
        ):
            pass
        elif name == "select" or name == "select_typed":
            self._select()
        elif name == "drop":
            self.pop()
        else:
            self.skip(code, _reason(name))

    def skip(self, code: int, reason: str) -> None:
        """Take and give what an instruction does; its results are not known."""
        taken, given = SIGNATURES[code]
        values = [self.pop() for _ in taken]
        known = next((v.reason for v in values if isinstance(v, Unknown)), reason)
        for _ in given:
            self.push(Unknown(known))

    def _integer(self, word: str, code: int, offset: int) -> None:
        if word in _INTEGER_COMPARE:
            b, a = self.pop(), self.pop()
            whole = isinstance(a, Linear) and isinstance(b, Linear)
            self.push(Compare(word, a, b) if whole else Unknown(why(a, b)))  # type: ignore[arg-type]
        elif word == "eqz":
            self.push(_not(self.pop()))
        elif word == "store":
            self._put(self.pop(), self.pop(), offset)
        elif word in ("add", "sub", "mul", "shl", "or", "and", "shr_u", "shr_s"):
            b, a = self.pop(), self.pop()
            self.push(integers(word, a, b))
        else:
            self.skip(code, "integer")

    def _put(self, value: Value, address: Value, offset: int) -> None:
        where = self.address(address, offset)
        if isinstance(where, Unknown):
            value, where = where, Linear()
        elif not is_float(value):
            value = Unknown(value.reason if isinstance(value, Unknown) else "integer")
        self.store(where, value)

    def address(self, value: Value, offset: int) -> Linear | Unknown:
        """The address of an access, or why it is not known."""
        if isinstance(value, Linear):
            return value.plus(number(offset))
        reason = value.reason if isinstance(value, Unknown) else "index"
        return Unknown("index" if reason in ("integer", "memory") else reason)

    def _float(self, word: str, code: int, offset: int, literal: object) -> None:
        taken, _ = SIGNATURES[code]
        if word == "const":
            self.push(Const(float(str(literal))))
        elif word == "load":
            where = self.address(self.pop(), offset)
            self.push(self.load(where) if isinstance(where, Linear) else where)
        elif word == "store":
            value = self.pop()
            self._put(value, self.pop(), offset)
        elif word in F32:
            args = [self.pop() for _ in taken][::-1]
            self.push(floats(F32[word], args))
        else:
            self.skip(code, "integer" if "i" in taken else "operation")

    def _select(self) -> None:
        condition, b, a = self.pop(), self.pop(), self.pop()
        if is_float(condition) and is_float(a) and is_float(b):
            self.push(op("select", condition, a, b))  # type: ignore[arg-type]
        elif isinstance(condition, Compare):
            self.push(Unknown("branch"))
        else:
            self.push(Unknown(why(condition, a, b)))


def floats(name: str, args: list[Value]) -> Value:
    """An operation on float32; unknown where an argument is."""
    if not all(is_float(a) for a in args):
        return Unknown(why(*args))
    found = op(name, *args)  # type: ignore[arg-type]
    return Unknown("size") if is_too_large(found) else found


def negated(compare: Compare) -> Compare:
    return Compare(_NEGATED[compare.name], compare.a, compare.b)


def _not(value: Value) -> Value:
    if isinstance(value, Compare):
        return negated(value)
    if isinstance(value, Linear):
        return Compare("eq", value, number(0))
    if isinstance(value, Unknown):
        return value
    return op("not", value) if is_float(value) else Unknown("integer")  # type: ignore[arg-type]


def _reason(name: str) -> str:
    kind = name.partition(".")[0]
    if kind in ("f64", "f64x2"):
        return "f64"
    if kind in ("i64", "i8x16", "i16x8", "i32x4", "i64x2", "v128"):
        return "integer"
    return "memory" if kind in ("memory", "atomic") or "atomic" in name else "instruction"
