"""Values that are rounded and clamped to bytes, read on as the whole numbers in float32 they are.

``f32(i32(i8(max(min(round(x) + 3.0, 127.0), -128.0))) - 3)`` is
``max(min(round(x) + 3.0, 127.0), -128.0) - 3.0``. Between a quantisation and the dequantisation
behind it, in one program, nothing is stored; the way through integers costs several times the
rounding itself.
"""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.compiler.ir.affine import rewrite
from nnjit_studio.compiler.ir.rewrite import map_stores
from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Cast, Const, Expr, Store
from nnjit_studio.compiler.tvm_adapter import ImportedCalls

_RANGES = {"i8": (-128.0, 127.0), "u8": (0.0, 255.0)}


def keep_whole(calls: ImportedCalls) -> ImportedCalls:
    """The same calls without the way through integers where nothing is stored."""

    def kept(store: Store) -> Store:
        return replace(store, value=_kept(store.value))

    changed = []
    for call in calls.calls:
        stages = tuple(
            stage if stage.steps else map_stores(stage, kept) for stage in call.program.stages
        )
        changed.append(replace(call, program=replace(call.program, stages=stages)))
    return replace(calls, calls=tuple(changed))


def _kept(expr: Expr) -> Expr:
    def change(e: Expr) -> Expr | None:
        found = _whole(e.value) if isinstance(e, Cast) and e.dtype == "f32" else None
        return None if found is None else _kept(found)

    return rewrite(expr, change)


def _whole(expr: Expr) -> Expr | None:
    """An integer expression in float32, if it is a byte that was rounded and clamped just now."""
    if isinstance(expr, Binary) and expr.op in ("add", "sub") and isinstance(expr.b, Const):
        inner = _whole(expr.a)
        return inner and replace(expr, a=inner, b=Const(float(expr.b.value), "f32"))
    while isinstance(expr, Cast) and expr.dtype == "i32":
        expr = expr.value
    if not isinstance(expr, Cast) or expr.dtype not in _RANGES:
        return None
    low, high = _RANGES[expr.dtype]
    return expr.value if _clamped(expr.value, low, high) else None


def _clamped(expr: Expr, low: float, high: float) -> bool:
    """Whether the value is whole and inside the range."""
    bounds: dict[str, float] = {}
    while isinstance(expr, Binary) and expr.op in ("min", "max") and isinstance(expr.b, Const):
        bounds.setdefault(expr.op, float(expr.b.value))
        expr = expr.a
    if not (low <= bounds.get("max", low - 1) <= bounds.get("min", high + 1) <= high):
        return False
    if isinstance(expr, Binary) and expr.op in ("add", "sub") and isinstance(expr.b, Const):
        if not float(expr.b.value).is_integer():
            return False
        expr = expr.a
    return isinstance(expr, Call) and expr.fn == "round"
