"""Where a search for the largest or smallest element begins.

TVM begins with the lowest finite number, which a row of infinities never reaches, and at place -1.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nnjit_studio.compiler.ir.tensor_ir import Const, Expr, Store

_FINITE = ("T_softmax_maxelem", "row_max", "row_min")
"""Blocks whose result is of use among finite elements alone: the largest of a softmax, for one."""
_EXTREME = {
    "f32": float(np.finfo(np.float32).max), "f16": float(np.finfo(np.float16).max),
}  # fmt: skip


def from_nothing(block: str, first: tuple[Store, ...]) -> tuple[Store, ...]:
    """A reduction's first values: of a search infinity, below which is nothing, and place 0."""
    if block in _FINITE:
        return first
    return tuple(replace(store, value=_from_nothing(store.value)) for store in first)


def _from_nothing(value: Expr) -> Expr:
    if not isinstance(value, Const):
        return value
    if abs(value.value) == _EXTREME.get(value.dtype):
        return Const(math.copysign(math.inf, value.value), value.dtype)
    return Const(0, value.dtype) if value == Const(-1, value.dtype) else value
