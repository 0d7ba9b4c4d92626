"""Nodes of TVM's expressions: their names in the tensor IR, and questions about them."""

from __future__ import annotations

from typing import Any

DTYPES = {
    "float32": "f32",
    "float16": "f16",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
    "uint8": "u8",
    "bool": "bool",
}
BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "FloorDiv": "floordiv",
    "FloorMod": "floormod",
    "Min": "min",
    "Max": "max",
    "LT": "lt",
    "LE": "le",
    "GT": "gt",
    "GE": "ge",
    "EQ": "eq",
    "NE": "ne",
    "And": "and",
    "Or": "or",
    "BitwiseAnd": "bitand",
    "BitwiseOr": "bitor",
    "BitwiseXor": "bitxor",
    "LShift": "shl",
    "RShift": "shr",
}
COMPARISONS = ("LT", "LE", "GT", "GE", "EQ", "NE")
CALLS = {
    "exp": "exp",
    "tanh": "tanh",
    "erf": "erf",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "log": "log",
    "sigmoid": "sigmoid",
    "fabs": "abs",
    "floor": "floor",
    "ceil": "ceil",
    "round": "round",
    "nearbyint": "round",
    "trunc": "trunc",
    "sin": "sin",
    "cos": "cos",
    **{
        name: name
        for name in (
            "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
        )
    },
}  # fmt: skip


def children(expr: Any) -> list[Any]:
    kind = type(expr).__name__
    if kind == "Call":
        return list(expr.args)
    if kind == "Cast":
        return [expr.value]
    if kind == "Select":
        return [expr.condition, expr.true_value, expr.false_value]
    if kind in ("Not", "BitwiseNot"):
        return [expr.a]
    return [expr.a, expr.b] if hasattr(expr, "b") else []


def is_computed(expr: Any) -> bool:
    """Whether an index depends on memory or on floats, so that its range is not known."""
    if type(expr).__name__ == "TensorLoad" or is_float(expr):
        return True
    return any(is_computed(child) for child in children(expr))


def truth(expr: Any) -> Any:
    """``b`` of ``0 < int(b)`` or ``int(b) != 0``: how TVM asks a bool, through 64 bits."""
    kind = type(expr).__name__
    sides = {"LT": (expr.a, expr.b), "GT": (expr.b, expr.a), "NE": (expr.b, expr.a)}
    if kind not in sides:
        return None
    zero, number = sides[kind]
    asked = type(zero).__name__ == "IntImm" and int(zero) == 0 and type(number).__name__ == "Cast"
    return number.value if asked and str(number.value.ty.dtype) == "bool" else None


def is_float(expr: Any) -> bool:
    return str(expr.ty.dtype).startswith("float")


def is_true(predicate: Any) -> bool:
    return type(predicate).__name__ == "IntImm" and int(predicate) == 1


def parts(body: Any) -> list[Any]:
    return list(body.seq) if type(body).__name__ == "SeqStmt" else [body]
