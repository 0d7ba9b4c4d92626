"""Reductions that several threads can share: each takes some elements, a tree does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import loads, rewrite, variables, walk
from nnjit_studio.compiler.ir.rewrite import substitute
from nnjit_studio.compiler.ir.tensor_ir import Binary, Cast, Const, Expr, Load, Select, Var
from nnjit_studio.compiler.wgsl.core.nests import Nest

OPS = ("add", "mul", "min", "max")


@dataclass(frozen=True)
class Tree:
    """A reduction in two halves."""

    leaves: tuple[Expr, ...]
    """What a single element contributes, one expression for each store."""
    joined: tuple[Expr, ...]
    """The results of two parts as one, on the variables ``left`` and ``right``."""
    ops: tuple[str, ...]
    """The operation of each store where it is a plain one, else empty; a plain reduction may
    start from its neutral element."""


def left(number: int) -> str:
    return f"left{number}"


def right(number: int) -> str:
    return f"right{number}"


def tree_of(nest: Nest) -> Tree | None:
    """The halves of a nest's reduction, None where only the given order is right."""
    return _plain(nest) or _selection(nest)


def _plain(nest: Nest) -> Tree | None:
    ops, leaves = [], []
    for store in nest.body:
        itself = Load(store.buffer, store.index)
        value = store.value
        if not isinstance(value, Binary) or value.op not in OPS or itself not in (value.a, value.b):
            return None
        rest = value.b if value.a == itself else value.a
        if any(load.buffer in nest.written for load in loads(rest)):
            return None
        ops.append(value.op)
        leaves.append(rest)
    joined = tuple(Binary(op, Var(left(i)), Var(right(i))) for i, op in enumerate(ops))
    return Tree(tuple(leaves), joined, tuple(ops))


def _selection(nest: Nest) -> Tree | None:
    """An arg-reduction: each result is the old one or the new element's, by one condition.

    The condition has to order equal elements by where they are, or else the
    order of the parts would show.
    """
    moving = {axis.var for axis in nest.reduce}
    old = [Load(store.buffer, store.index) for store in nest.body]
    leaves: list[Expr] = []
    for store, itself in zip(nest.body, old, strict=True):
        value = store.value
        if not isinstance(value, Select) or value.then != itself:
            return None
        leaves.append(value.otherwise)
    if len(nest.body) < 2 or any(x.buffer in nest.written for leaf in leaves for x in loads(leaf)):
        return None
    places = [i for i, leaf in enumerate(leaves) if _is_place(leaf, moving)]
    ours: dict[Expr, Expr] = {load: Var(left(i)) for i, load in enumerate(old)}
    theirs: dict[Expr, Expr] = {leaf: Var(right(i)) for i, leaf in enumerate(leaves)}

    def visit(expr: Expr) -> Expr | None:
        return ours.get(expr) or theirs.get(expr)

    joined = tuple(rewrite(store.value, visit) for store in nest.body)
    conditions = [value.condition for value in joined if isinstance(value, Select)]
    for condition in conditions:
        names = variables(condition)
        if names & moving or not any({left(i), right(i)} <= names for i in places):
            return None
        if any(isinstance(e, Load) for e in walk(condition)):
            return None
    return Tree(tuple(leaves), joined, ())


def _is_place(leaf: Expr, moving: set[str]) -> bool:
    while isinstance(leaf, Cast):
        leaf = leaf.value
    return not loads(leaf) and bool(variables(leaf) & moving)


def renamed(joined: Sequence[Expr], a: Sequence[str], b: Sequence[str]) -> list[Expr]:
    """The joint values on other variables."""
    names: dict[str, Expr] = {left(i): Var(name) for i, name in enumerate(a)}
    names.update({right(i): Var(name) for i, name in enumerate(b)})
    return [substitute(value, names) for value in joined]


def neutral(op: str, dtype: str) -> Const:
    """The element that changes nothing."""
    if op in ("add", "mul"):
        return Const(int(op == "mul"), dtype)
    if dtype == "f32":
        return Const(float("inf") if op == "min" else float("-inf"), dtype)
    if dtype == "bool":
        return Const(int(op == "min"), dtype)
    return Const(2**31 - 1 if op == "min" else -(2**31), "i32")
