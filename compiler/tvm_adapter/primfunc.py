"""A TVM PrimFunc becomes a tensor-IR program: inlined, flattened, with canonical names.

The inlining is TVM's own, done once a model, so that a candidate's schedule
never waits for TVM.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from tvm import IRModule, s_tir, sym, tirx

from nnjit_studio.compiler.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.errors import UnsupportedOpError

DTYPES = {
    "float32": "f32",
    "float16": "f16",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
    "uint8": "u8",
    "bool": "bool",
}
_BINARY = {
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
}
_CALLS = {
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
}
_EXPENSIVE = {"exp", "tanh", "erf", "log", "sigmoid", "pow", "sin", "cos"}


def operator_name(primfunc_name: str) -> str:
    """``fused_matmul3_add5_erf`` -> ``matmul_add_erf``: the name without TVM's counters."""
    return re.sub(r"(?<=[a-z])\d+(?=_|$)", "", primfunc_name.removeprefix("fused_"))


def program_of(
    func: Any, name: str, scalars: Mapping[int, float | int], constants: tuple[bool, ...]
) -> Program:
    """Inline a PrimFunc's pointwise blocks and convert it to a :class:`Program`.

    Parameters
    ----------
    scalars
        Values of one-element constant parameters by position: they become
        literals and their parameters vanish.
    constants
        For each input parameter, whether its data is known.
    """
    converter = _Converter(_inline(func, name), operator_name(name), scalars, constants)
    return converter.program()


def _inline(func: Any, name: str) -> Any:
    schedule = s_tir.Schedule(IRModule({"main": func}), error_render_level="none")
    root = schedule.get_sblock("root")
    for block in schedule.get_child_blocks(root):
        node = schedule.get(block)
        if node.init is not None:
            continue
        consumers = [schedule.get(c) for c in schedule.get_consumers(block)]
        if not consumers:
            continue
        size = _points(node)
        reused = any(_points(c) > size for c in consumers)
        twice = len(consumers) > 1 and any(c.init is not None for c in consumers)
        work = _work(node)
        if (reused and work) or (twice and work & _EXPENSIVE):
            continue
        with contextlib.suppress(s_tir.ScheduleError):
            schedule.compute_inline(block)
    return schedule.mod["main"]


def _points(block: Any) -> int:
    points = 1
    for v in block.iter_vars:
        points *= int(v.dom.extent)
    return points


def _work(block: Any) -> set[str]:
    """Names of the arithmetic in a block's value: empty when it only moves data."""
    found: set[str] = set()

    def visit(expr: Any) -> None:
        kind = type(expr).__name__
        if kind == "TensorLoad":
            return
        if kind in _BINARY or kind == "Div":
            found.add(_BINARY.get(kind, "div"))
        if kind == "Call":
            found.add(expr.op.name.removeprefix("tirx."))
        for child in _children(expr):
            visit(child)

    if type(block.body).__name__ == "BufferStore":
        visit(block.body.value)
    return found


def _children(expr: Any) -> list[Any]:
    kind = type(expr).__name__
    if kind == "Call":
        return list(expr.args)
    if kind == "Cast":
        return [expr.value]
    if kind == "Select":
        return [expr.condition, expr.true_value, expr.false_value]
    if kind == "Not":
        return [expr.a]
    return [expr.a, expr.b] if hasattr(expr, "b") else []


class _Converter:
    """One PrimFunc to one Program, with canonical names."""

    def __init__(
        self,
        func: Any,
        name: str,
        scalars: Mapping[int, float | int],
        constants: tuple[bool, ...],
    ) -> None:
        self.func = func
        self.name = name
        self.scalars: dict[Any, float | int] = {func.params[i]: v for i, v in scalars.items()}
        self.buffers: dict[Any, Buffer] = {}
        n_inputs = len(constants)
        counts = {"input": 0, "output": 0, "workspace": 0}

        def declare(buffer: Any, role: str, constant: bool = False) -> None:
            prefix = {"input": "in", "output": "out", "workspace": "ws"}[role]
            dtype = str(buffer.dtype)
            if dtype not in DTYPES:
                raise UnsupportedOpError(f"{name}: tensors of dtype {dtype} are not supported.")
            self.buffers[buffer] = Buffer(
                f"{prefix}{counts[role]}",
                DTYPES[dtype],
                tuple(int(d) for d in buffer.shape),
                role,
                constant,
            )
            counts[role] += 1

        for i, param in enumerate(func.params):
            if param in self.scalars:
                self.buffers[param] = Buffer("scalar", DTYPES[str(param.dtype)], (1,), "input")
            else:
                is_input = i < n_inputs
                declare(
                    param, "input" if is_input else "output", constants[i] if is_input else False
                )
        for buffer in func.body.block.alloc_buffers:
            declare(buffer, "workspace")

    def program(self) -> Program:
        body = self.func.body.block.body
        statements = body.seq if type(body).__name__ == "SeqStmt" else [body]
        stages = tuple(self.stage(s) for s in statements)
        order = {"input": 0, "output": 1, "workspace": 2}
        buffers = sorted(
            (b for b in self.buffers.values() if b.name != "scalar"), key=lambda b: order[b.role]
        )
        return Program(self.name, tuple(buffers), stages)

    def fail(self, what: str) -> UnsupportedOpError:
        return UnsupportedOpError(
            f"The operator {self.name!r} needs {what}, which has no schedule yet.",
            "Replace it in the exported model; docs/limits.md lists what is missing.",
        )

    def stage(self, statement: Any) -> Stage:
        while type(statement).__name__ == "For":
            statement = statement.body
        if type(statement).__name__ != "SBlockRealize":
            raise self.fail("control flow inside the kernel")
        block = statement.block
        if not (type(statement.predicate).__name__ == "IntImm" and int(statement.predicate) == 1):
            raise self.fail("a predicated block")
        self.analyzer = sym.Analyzer()
        self.names: dict[Any, str] = {}
        axes: list[Axis] = []
        for value, v in zip(statement.iter_values, block.iter_vars, strict=True):
            if type(value).__name__ not in ("Var", "IntImm") or int(v.dom.min) != 0:
                raise self.fail("an irregular loop")
            extent = int(v.dom.extent)
            self.analyzer.bind(v.var, v.dom)
            self.names[v.var] = f"i{len(self.names)}"
            if extent != 1:
                kind = "reduce" if int(v.iter_type) == 2 else "spatial"
                axes.append(Axis(self.names[v.var], extent, kind))
        axes.sort(key=lambda a: a.kind == "reduce")
        init = self.stores(block.init) if block.init is not None else ()
        return Stage(block.name_hint, tuple(axes), self.stores(block.body), init)

    def stores(self, body: Any) -> tuple[Store, ...]:
        statements = body.seq if type(body).__name__ == "SeqStmt" else [body]
        out = []
        for s in statements:
            if type(s).__name__ != "BufferStore":
                raise self.fail("control flow inside the kernel")
            buffer = self.buffers[s.buffer]
            out.append(Store(buffer.name, self.flat_index(buffer, s.indices), self.value(s.value)))
        return tuple(out)

    def flat_index(self, buffer: Buffer, indices: Any) -> Expr:
        """Row-major element index; data-dependent parts are clamped into their dimension."""
        flat: Any = None
        dynamic: list[tuple[Expr, int]] = []
        stride = 1
        for extent, index in reversed(list(zip(buffer.shape, indices, strict=True))):
            if _reads_memory(index):
                clamped = Binary("max", self.index(index), Const(0, "i32"))
                dynamic.append((Binary("min", clamped, Const(extent - 1, "i32")), stride))
            else:
                term = index * tirx.IntImm(str(index.ty.dtype), stride)
                flat = term if flat is None else flat + term
            stride *= extent
        out: Expr = Const(0, "i32") if flat is None else self.index(self.analyzer.simplify(flat))
        for part, by in dynamic:
            scaled = part if by == 1 else Binary("mul", part, Const(by, "i32"))
            out = scaled if out == Const(0, "i32") else Binary("add", scaled, out)
        return out

    def index(self, expr: Any) -> Expr:
        """An index expression: everything is i32."""
        kind = type(expr).__name__
        if kind == "IntImm":
            return Const(int(expr), "i32")
        if kind == "Var":
            return Var(self.names[expr])
        if kind == "Cast":
            return self.index(expr.value)
        if kind in _BINARY and kind not in ("And", "Or"):
            return Binary(_BINARY[kind], self.index(expr.a), self.index(expr.b))
        if kind == "TensorLoad":
            loaded = self.value(expr)
            return loaded if str(expr.ty.dtype) == "int32" else Cast(loaded, "i32")
        if kind == "Select":
            parts = (expr.condition, expr.true_value, expr.false_value)
            return Select(*(self.index(p) for p in parts))
        if kind == "Call" and expr.op.name.endswith("if_then_else"):
            return Select(*(self.index(a) for a in expr.args))
        raise self.fail(f"the index {str(expr)[:60]}")

    def value(self, expr: Any) -> Expr:
        """A value expression with the dtypes of the original."""
        kind = type(expr).__name__
        dtype = DTYPES.get(str(expr.ty.dtype), "")
        if not dtype:
            raise self.fail(f"dtype {expr.ty.dtype}")
        if kind == "IntImm":
            return Const(int(expr), dtype)
        if kind == "FloatImm":
            return Const(float(expr), dtype)
        if kind == "Var":
            var = Var(self.names[expr])
            return var if dtype == "i32" else Cast(var, dtype)
        if kind == "TensorLoad":
            buffer = self.buffers[expr.source]
            if buffer.name == "scalar":
                return Const(self.scalars[expr.source], buffer.dtype)
            return Load(buffer.name, self.flat_index(buffer, expr.indices))
        if kind == "Cast":
            return Cast(self.value(expr.value), dtype)
        if kind in ("Div", "Mod"):
            floating = dtype in ("f32", "f16")
            op = {"Div": "div" if floating else "truncdiv", "Mod": "truncmod"}[kind]
            return Binary(op, self.value(expr.a), self.value(expr.b))
        if kind in _BINARY:
            return Binary(_BINARY[kind], self.value(expr.a), self.value(expr.b))
        if kind == "Not":
            return Call("not", (self.value(expr.a),))
        if kind == "Select":
            return Select(
                self.value(expr.condition),
                self.value(expr.true_value),
                self.value(expr.false_value),
            )
        if kind == "Call":
            return self.call(expr)
        raise self.fail(f"the expression {kind}")

    def call(self, expr: Any) -> Expr:
        name = expr.op.name.removeprefix("tirx.")
        if name.endswith("if_then_else"):  # tirx. or prim., by where it was made
            return Select(*(self.value(a) for a in expr.args))
        args = tuple(self.value(a) for a in expr.args)
        if name in _CALLS:
            return Call(_CALLS[name], args)
        if name in ("pow", "power"):
            return Binary("pow", *args)
        if name == "isnan":
            return Binary("ne", args[0], args[0])
        if name == "likely":
            return args[0]
        raise self.fail(f"the function {name}")


def _reads_memory(expr: Any) -> bool:
    if type(expr).__name__ == "TensorLoad":
        return True
    return any(_reads_memory(child) for child in _children(expr))
