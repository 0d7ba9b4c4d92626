"""Conversion of TVM PrimFuncs to tensor IR: inlined, flattened, with canonical names.

TVM inlines once per model, so that a candidate's schedule never waits for TVM.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tvm import ir, sym, tirx

from nnjit_studio.compiler.ir.affine import linear_form, walk
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Program,
    Select,
    Stage,
    Statement,
    Store,
    Var,
)
from nnjit_studio.compiler.tvm_adapter.inline import inlined
from nnjit_studio.compiler.tvm_adapter.nodes import (
    BINARY,
    CALLS,
    COMPARISONS,
    DTYPES,
    is_computed,
    is_float,
    is_true,
    parts,
    truth,
)
from nnjit_studio.compiler.tvm_adapter.searches import from_nothing
from nnjit_studio.errors import UnsupportedOpError


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
    converter = _Converter(inlined(func, name), operator_name(name), scalars, constants)
    return converter.program()


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
        self.names: dict[Any, Expr] = {}
        self.lets: dict[Any, Expr] = {}
        self.counts = {"input": 0, "output": 0, "workspace": 0}
        n_inputs = len(constants)
        for i, param in enumerate(func.params):
            if param in self.scalars:
                self.buffers[param] = Buffer("scalar", DTYPES[str(param.dtype)], (1,), "input")
            else:
                is_input = i < n_inputs
                role = "input" if is_input else "output"
                self.declare(param, role, constants[i] if is_input else False)
        self.allocate(func.body.block)

    def declare(self, buffer: Any, role: str, constant: bool = False) -> None:
        prefix = {"input": "in", "output": "out", "workspace": "ws"}[role]
        dtype = str(buffer.dtype)
        if dtype not in DTYPES:
            raise UnsupportedOpError(f"{self.name}: tensors of dtype {dtype} are not supported.")
        try:
            shape = tuple(int(d) for d in buffer.shape)
        except TypeError as e:
            raise self.fail("a tensor whose shape depends on data") from e
        name = f"{prefix}{self.counts[role]}"
        self.buffers[buffer] = Buffer(name, DTYPES[dtype], shape, role, constant)
        self.counts[role] += 1

    def program(self) -> Program:
        stages = tuple(s for part in parts(self.func.body.block.body) for s in self.stages(part))
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

    def stages(self, statement: Any) -> list[Stage]:
        """A block in a regular nest is a stage; what is not regular becomes serial steps."""
        self.analyzer = sym.Analyzer()
        self.names = {}
        kind = type(statement).__name__
        if kind == "AttrStmt":
            return self.stages(statement.body)
        if kind == "SeqStmt":
            return [stage for part in statement.seq for stage in self.stages(part)]
        realize = statement
        while type(realize).__name__ == "For":
            realize = realize.body
        if type(realize).__name__ != "SBlockRealize":
            return [self.serial(statement)]
        block = realize.block
        if realize is statement and not block.iter_vars and block.init is None:
            # An opaque block: its parts may be stages of their own.
            self.allocate(block)
            return [stage for part in parts(block.body) for stage in self.stages(part)]
        if not self.regular(realize):
            return [self.serial(statement)]
        return [self.stage(realize)]

    def regular(self, realize: Any) -> bool:
        values = zip(realize.iter_values, realize.block.iter_vars, strict=True)
        return (
            is_true(realize.predicate)
            and not realize.block.alloc_buffers
            and all(
                type(value).__name__ in ("Var", "IntImm") and int(v.dom.min) == 0
                for value, v in values
            )
            and all(type(s).__name__ in ("BufferStore", "Bind") for s in parts(realize.block.body))
        )

    def stage(self, realize: Any) -> Stage:
        block = realize.block
        axes: list[Axis] = []
        for v in block.iter_vars:
            extent = int(v.dom.extent)
            self.analyzer.bind(v.var, v.dom)
            name = self.new_name(v.var)
            if extent == 1:
                self.names[v.var] = Const(0, "i32")  # a condition may still name it
            else:
                axes.append(Axis(name, extent, "reduce" if int(v.iter_type) == 2 else "spatial"))
        axes.sort(key=lambda a: a.kind == "reduce")
        init = self.stores(block.init) if block.init is not None else ()
        init = from_nothing(str(block.name_hint), init)
        return Stage(block.name_hint, tuple(axes), self.stores(block.body), init)

    def serial(self, statement: Any) -> Stage:
        """Loops in the order given; a plain copy loop among them has spatial axes."""
        steps = self.steps(statement)
        axes: list[Axis] = []
        inner = steps
        while len(inner) == 1 and isinstance(inner[0], Loop):
            axes.append(Axis(inner[0].var, inner[0].extent))
            inner = inner[0].body
        if len(inner) == 1 and isinstance(inner[0], Store) and _is_map(inner[0], axes):
            return Stage("map", tuple(axes), (inner[0],))
        return Stage("serial", (), steps=steps)

    def steps(self, statement: Any) -> tuple[Statement, ...]:
        kind = type(statement).__name__
        if kind == "SeqStmt":
            return tuple(step for part in statement.seq for step in self.steps(part))
        if kind == "AttrStmt":
            return self.steps(statement.body)
        if kind == "BufferStore":
            return (self.store(statement),)
        if kind == "For":
            if type(statement.extent).__name__ != "IntImm" or int(statement.min) != 0:
                raise self.fail("a loop whose length depends on data")
            self.analyzer.bind(statement.loop_var, ir.Range(statement.min, statement.extent))
            name = self.new_name(statement.loop_var)
            return (Loop(name, int(statement.extent), self.steps(statement.body)),)
        if kind == "IfThenElse":
            otherwise = statement.else_case
            return (
                If(
                    self.value(statement.condition),
                    self.steps(statement.then_case),
                    () if otherwise is None else self.steps(otherwise),
                ),
            )
        if kind == "SBlockRealize":
            return self.inner_block(statement)
        if kind == "Evaluate" and type(statement.value).__name__ == "IntImm":
            return ()
        raise self.fail(f"the statement {kind}")

    def inner_block(self, realize: Any) -> tuple[Statement, ...]:
        block = realize.block
        self.allocate(block)
        for value, v in zip(realize.iter_values, block.iter_vars, strict=True):
            self.analyzer.bind(v.var, v.dom)
            self.names[v.var] = self.index(value)
        steps = self.steps(block.body)
        if block.init is not None:
            first: Expr | None = None
            for value, v in zip(realize.iter_values, block.iter_vars, strict=True):
                if int(v.iter_type) == 2:
                    zero = Binary("eq", self.index(value), Const(int(v.dom.min), "i32"))
                    first = zero if first is None else Binary("and", first, zero)
            init = self.steps(block.init)
            steps = (*(init if first is None else (If(first, init),)), *steps)
        return steps if is_true(realize.predicate) else (If(self.value(realize.predicate), steps),)

    def allocate(self, block: Any) -> None:
        for buffer in block.alloc_buffers:
            if buffer not in self.buffers:
                self.declare(buffer, "workspace")

    def new_name(self, var: Any) -> str:
        name = f"i{len(self.names)}"
        self.names[var] = Var(name)
        return name

    def stores(self, body: Any) -> tuple[Store, ...]:
        """Stores after names for values, which are put in place: all are read before any store."""
        out = []
        for s in parts(body):
            kind = type(s).__name__
            if kind == "Bind":
                self.lets[s.var] = self.value(s.value)
            elif kind == "BufferStore":
                out.append(self.store(s))
            else:
                raise self.fail("control flow inside the kernel")
        return tuple(out)

    def store(self, statement: Any) -> Store:
        buffer = self.buffers[statement.buffer]
        index = self.flat_index(buffer, statement.indices)
        return Store(buffer.name, index, self.value(statement.value))

    def flat_index(self, buffer: Buffer, indices: Any) -> Expr:
        """Row-major element index; data-dependent parts are clamped into their dimension."""
        flat: Any = None
        dynamic: list[tuple[Expr, int]] = []
        stride = 1
        for extent, index in reversed(list(zip(buffer.shape, indices, strict=True))):
            if is_computed(index):
                clamped = Binary("max", self.index(index), Const(0, "i32"))
                dynamic.append((Binary("min", clamped, Const(extent - 1, "i32")), stride))
            else:
                term = index * tirx.IntImm(str(index.ty.dtype), stride)
                flat = term if flat is None else flat + term
            stride *= extent
        out: Expr = Const(0, "i32") if flat is None else self.index(self.analyzer.simplify(flat))
        for part, by in dynamic:
            scaled = part if by == 1 else part * by
            out = scaled if out == Const(0, "i32") else scaled + out
        return out

    def index(self, expr: Any) -> Expr:
        """An index expression: everything is i32."""
        kind = type(expr).__name__
        if kind == "IntImm":
            return Const(int(expr), "i32")
        if kind == "Var":
            return self.names[expr]
        if kind == "Cast":
            if is_float(expr.value):
                return Cast(self.value(expr.value), "i32")
            return self.index(expr.value)
        if kind in ("Div", "Mod"):
            op = "truncdiv" if kind == "Div" else "truncmod"
            return Binary(op, self.index(expr.a), self.index(expr.b))
        if kind in ("And", "Or", "Not") or (kind in COMPARISONS and is_float(expr.a)):
            return self.value(expr)
        if kind in BINARY:
            return Binary(BINARY[kind], self.index(expr.a), self.index(expr.b))
        if kind == "TensorLoad":
            loaded = self.value(expr)
            return loaded if str(expr.ty.dtype) == "int32" else Cast(loaded, "i32")
        if kind == "Select":
            sides = (expr.condition, expr.true_value, expr.false_value)
            return Select(*(self.index(side) for side in sides))
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
            if expr in self.lets:
                return self.lets[expr]
            var = self.names[expr]
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
        if kind in BINARY:
            asked = truth(expr)
            if asked is not None:
                return self.value(asked)
            return Binary(BINARY[kind], self.value(expr.a), self.value(expr.b))
        if kind in ("Not", "BitwiseNot"):
            return Call("not" if kind == "Not" else "bitnot", (self.value(expr.a),))
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
        name = expr.op.name.removeprefix("tirx.").removeprefix("prim.")
        if name.endswith("if_then_else"):  # tirx. or prim., by where it was made
            return Select(*(self.value(a) for a in expr.args))
        args = tuple(self.value(a) for a in expr.args)
        if name in CALLS:
            return Call(CALLS[name], args)
        if name in ("pow", "power"):
            return Binary("pow", *args)
        if name == "reinterpret":
            return Call({"i32": "bits", "f32": "from_bits"}[DTYPES[str(expr.ty.dtype)]], args)
        if name == "isnan":
            return Binary("ne", args[0], args[0])
        if name == "likely":
            return args[0]
        raise self.fail(f"the function {name}")


def _is_map(store: Store, axes: list[Axis]) -> bool:
    """Whether each iteration writes an element of its own and reads none that others write."""
    extents = {a.var: a.extent for a in axes}
    form = linear_form(store.index, extents)
    loads = (e for e in walk(store.value) if isinstance(e, Load))
    if form is None or any(load.buffer == store.buffer for load in loads):
        return False
    reach = 0
    for var, step in sorted(form[1].items(), key=lambda item: item[1]):
        if step <= reach:
            return False
        reach += step * (extents[var] - 1)
    return all(a.var in form[1] or a.extent == 1 for a in axes)
