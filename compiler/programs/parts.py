"""Pieces that programs are put together from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Program,
    Var,
)

EPILOGUES = ("bias", "gelu", "relu", "residual")


@dataclass(frozen=True)
class Spelling:
    """How a kind of workload is written, ``kind:dims:f32``, and the program that it stands for.

    Attributes
    ----------
    dims
        Their names, as in ``MxKxN``; one called ``PAD`` may be 0.
    build
        Of kind, dims and epilogue.
    about
        Half a sentence for the table of spellings.
    epilogues
        Words that it may end with.
    """

    kind: str
    dims: str
    build: Callable[[str, tuple[int, ...], tuple[str, ...]], Program]
    about: str
    epilogues: tuple[str, ...] = EPILOGUES


Points = Sequence[tuple[str, int]]
"""Loop variables with their extents, outermost first."""


def epilogue_of(
    words: Sequence[str], value: Expr, points: Points, n_inputs: int
) -> tuple[Expr, list[Buffer]]:
    """Apply an epilogue to the finished sum at ``points``; the last axis is the bias's.

    Returns
    -------
    tuple
        The value, and the input buffers that it reads, named from ``in<n_inputs>`` on.
    """
    buffers: list[Buffer] = []
    for word in words:
        name = f"in{n_inputs + len(buffers)}"
        if word == "bias":
            var, extent = points[-1]
            buffers.append(Buffer(name, "f32", (extent,), "input", True))
            value = Binary("add", value, Load(name, row_major(((var, extent),))))
        elif word == "residual":
            buffers.append(Buffer(name, "f32", tuple(e for _, e in points), "input"))
            value = Binary("add", value, Load(name, row_major(points)))
        elif word == "relu":
            value = Binary("max", value, f32(0.0))
        else:
            erf = Call("erf", (Binary("div", value, f32(math.sqrt(2))),))
            gate = Binary("add", f32(1.0), erf)
            value = Binary("mul", Binary("mul", value, gate), f32(0.5))
    return value, buffers


def row_major(points: Points) -> Expr:
    """Flat index of a dense tensor; axes of extent 1 vanish, as the importer's do."""
    index: Expr | None = None
    stride = 1
    for var, extent in reversed(points):
        if extent > 1:
            term: Expr = Var(var)
            if stride > 1:
                term = Binary("mul", term, Const(stride, "i32"))
            index = term if index is None else Binary("add", term, index)
        stride *= extent
    return Const(0, "i32") if index is None else index


def axes(points: Points) -> tuple[Axis, ...]:
    return tuple(Axis(var, extent) for var, extent in points if extent > 1)


def f32(value: float) -> Const:
    return Const(value, "f32")
