"""Vectorisability: whether an expression can be computed on four lanes along a variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnjit_studio.compiler.ir.affine import Bounds, affine, bounds_of, depends, loads, stride
from nnjit_studio.compiler.ir.dtypes import BYTES, computed, dtype_of
from nnjit_studio.compiler.ir.tensor_ir import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Store,
    Var,
)

_LANE_DTYPES = ("f32", "i32")
_WIDENED = ("bool", *BYTES)
_BIT_OPS = ("bitand", "bitor", "bitxor")
_INT_OPS = ("add", "sub", "mul", "min", "max")
_OF_INTEGERS = ("not", "abs", "neg", "bitnot", "from_bits")


@dataclass(frozen=True)
class Lanes:
    """Answers for one program; ``locals`` are dtypes of accumulators, which vary."""

    program: Program
    known: Bounds
    locals: Mapping[str, str] = field(default_factory=dict)

    def dtype(self, expr: Expr) -> str:
        dtypes = {b.name: b.dtype for b in self.program.buffers}
        return dtype_of(expr, dtypes, self.locals)

    def store(self, store: Store, var: str) -> bool:
        """Whether a store can write four lanes at once."""
        dtype = self.program.buffer(store.buffer).dtype
        return (
            dtype in (*_LANE_DTYPES, *BYTES, "f16")
            and self.dtype(store.value) == computed(dtype)
            and stride(store.index, var) == 1
            and self.value(store.value, var)
        )

    def value(self, expr: Expr, var: str) -> bool:
        """Whether the value can be computed on lanes."""
        if not self._varies(expr, var):
            return self.dtype(expr) != "i64" or isinstance(expr, Const)
        dtype = self.dtype(expr)  # never f16
        if isinstance(expr, Var):
            return dtype in _LANE_DTYPES
        if isinstance(expr, Load):
            return dtype in (*_LANE_DTYPES, *_WIDENED)
        if isinstance(expr, Binary):
            return self._binary(expr, var)
        if isinstance(expr, Call):
            (argument,) = expr.args
            known = self.dtype(argument) == "f32" or expr.fn in _OF_INTEGERS
            fits = self.dtype(argument) in ("f32", "i32", "bool")
            return known and fits and self.value(argument, var)
        if isinstance(expr, Select):
            sides = (expr.then, expr.otherwise)
            if not all(self.value(side, var) for side in sides) or dtype == "i64":
                return False
            if not self._varies(expr.condition, var):
                return True
            return self.value(expr.condition, var) and all(self._safe(s) for s in sides)
        assert isinstance(expr, Cast)
        source = self.dtype(expr.value)
        fits = source != "i64" and dtype in (*_LANE_DTYPES, *_WIDENED)
        return fits and self.value(expr.value, var)

    def _binary(self, expr: Binary, var: str) -> bool:
        if not (self.value(expr.a, var) and self.value(expr.b, var)):
            return False
        if expr.op in ("and", "or"):
            return self._safe(expr.b)
        dtype = self.dtype(Binary("add", expr.a, expr.b))
        if dtype == "f32":
            return True
        if expr.op in COMPARISONS:
            return dtype in ("i32", "bool") and self.dtype(expr.a) == self.dtype(expr.b)
        if expr.op in _BIT_OPS:
            return dtype in ("i32", "bool")
        return dtype == "i32" and expr.op in _INT_OPS

    def _varies(self, expr: Expr, var: str) -> bool:
        return depends(expr, var) or any(depends(expr, name) for name in self.locals)

    def _safe(self, expr: Expr) -> bool:
        for load in loads(expr):
            low, high = bounds_of(affine(load.index), self.known)
            size = 1
            for extent in self.program.buffer(load.buffer).shape:
                size *= extent
            if low < 0 or high >= size:
                return False
        return True

    def gathers(self, expr: Expr, var: str) -> int:
        """Loads whose lanes are neither neighbours nor equal."""
        return sum(stride(load.index, var) not in (0, 1) for load in loads(expr))
