"""Words for what an epilogue does, for the workload's name."""

from __future__ import annotations

from nnjit_studio.compiler.ir.affine import children, walk
from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Cast, Const, Expr, Load, Program, Var
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR


def epilogue_labels(value: Expr, program: Program, m_var: str, n_var: str) -> tuple[str, ...]:
    """Name the steps from the accumulator to ``value``, in order of application.

    ``bias`` adds constants that vary with n, not with m, ``residual`` what varies with m and
    n, ``scale`` multiplies by a constant; ``gelu`` (erf or tanh form), ``silu``
    and ``relu`` are known by their shape. Anything else goes by its op's name.
    """

    def labels(expr: Expr) -> tuple[str, ...]:
        if expr == Var(ACCUMULATOR):
            return ()
        if isinstance(expr, Cast):
            return labels(expr.value)
        gate = _gated(expr)
        if gate is not None:
            return (*labels(gate[1]), gate[0])
        if isinstance(expr, Binary):
            inner, other = (expr.a, expr.b) if _has_sum(expr.a) else (expr.b, expr.a)
            return (*labels(inner), _word(expr.op, other, program, m_var, n_var))
        inner = next(child for child in children(expr) if _has_sum(child))
        return (*labels(inner), expr.fn if isinstance(expr, Call) else "select")

    return labels(value) if _has_sum(value) else ()


def _has_sum(expr: Expr) -> bool:
    return any(e == Var(ACCUMULATOR) for e in walk(expr))


def _word(op: str, other: Expr, program: Program, m_var: str, n_var: str) -> str:
    if isinstance(other, Const):
        if op in ("mul", "div"):
            return "scale"
        return "relu" if op == "max" and other.value == 0 else op
    if op != "add" or _has_sum(other):
        return op
    seen = {e.name for e in walk(other) if isinstance(e, Var)}
    loads = [e for e in walk(other) if isinstance(e, Load)]
    columns = n_var in seen and m_var not in seen
    if columns and all(program.buffer(load.buffer).constant for load in loads):
        return "bias"
    return "residual" if m_var in seen and n_var in seen else op


def _gated(expr: Expr) -> tuple[str, Expr] | None:
    # x * g(x), up to constant factors, as (name, x).
    factors = [f for f in _factors(expr) if not isinstance(f, Const)]
    if len(factors) != 2:
        return None
    for x, gate in (factors, factors[::-1]):
        if not _has_sum(x):
            continue
        calls = [e for e in walk(gate) if isinstance(e, Call) and _contains(e, x)]
        if isinstance(gate, Call) and gate.fn == "sigmoid" and gate.args == (x,):
            return "silu", x
        if _is_one_plus(gate) and calls and calls[0].fn in ("erf", "tanh"):
            return "gelu", x
    return None


def _is_one_plus(gate: Expr) -> bool:
    return (
        isinstance(gate, Binary)
        and gate.op == "add"
        and any(isinstance(side, Const) for side in (gate.a, gate.b))
    )


def _contains(expr: Expr, part: Expr) -> bool:
    return any(e == part for e in walk(expr))


def _factors(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Binary) and expr.op == "mul":
        return _factors(expr.a) + _factors(expr.b)
    if isinstance(expr, Binary) and expr.op == "div" and isinstance(expr.b, Const):
        return (*_factors(expr.a), expr.b)
    return (expr,)
