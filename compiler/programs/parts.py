"""Building blocks of the programs: spellings, epilogues, row-major indices."""

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
    """How a kind of workload is written, ``kind:dims:f32``, and the program that it stands for."""

    kind: str
    dims: str
    """Their names, as in ``MxKxN``; one called ``PAD`` may be 0."""
    build: Callable[[str, tuple[int, ...], tuple[str, ...]], Program]
    """Of kind, dims and epilogue."""
    about: str
    """Half a sentence for the table of spellings."""
    epilogues: tuple[str, ...] = EPILOGUES
    """Words that it may end with."""


Points = Sequence[tuple[str, int]]
"""Loop variables with their extents, outermost first."""


def epilogue_of(
    words: Sequence[str],
    total: Load,
    shape: tuple[int, ...],
    bias: tuple[str, tuple[int, ...]],
    n_inputs: int,
) -> tuple[Expr, list[Buffer]]:
    """Apply an epilogue to a finished sum.

    Parameters
    ----------
    shape
        Of the result, which a residual has too.
    bias
        The variable of its axis, and the shape of its buffer.

    Returns
    -------
    tuple
        The value, and the input buffers that it reads, named from ``in<n_inputs>`` on.
    """
    value: Expr = total
    buffers: list[Buffer] = []
    for word in words:
        name = f"in{n_inputs + len(buffers)}"
        if word == "bias":
            var, extents = bias
            buffers.append(Buffer(name, "f32", extents, "input", True))
            at = row_major(((var, math.prod(extents)),))
            value = value + Load(name, at)
        elif word == "residual":
            buffers.append(Buffer(name, "f32", shape, "input"))
            value = value + Load(name, total.index)
        else:
            value = POINTWISE[word](value)
    return value, buffers


def _gelu(value: Expr) -> Expr:
    erf = Call("erf", (value / math.sqrt(2),))
    gate = f32(1.0) + erf
    return value * gate * 0.5


def _relu6(value: Expr) -> Expr:
    return Binary("min", Binary("max", value, f32(0.0)), f32(6.0))


def _hardswish(value: Expr) -> Expr:
    gate = Binary("min", value + 3.0, f32(6.0))
    return value * (Binary("max", gate, f32(0.0)) / 6.0)


POINTWISE: dict[str, Callable[[Expr], Expr]] = {
    "relu": lambda value: Binary("max", value, f32(0.0)),
    "relu6": _relu6,
    "hardswish": _hardswish,
    "gelu": _gelu,
}


def row_major(points: Points) -> Expr:
    """Flat index of a dense tensor; axes of extent 1 vanish, as the importer's do."""
    index: Expr | None = None
    stride = 1
    for var, extent in reversed(points):
        if extent > 1:
            term: Expr = Var(var)
            if stride > 1:
                term = term * stride
            index = term if index is None else term + index
        stride *= extent
    return Const(0, "i32") if index is None else index


def axes(points: Points) -> tuple[Axis, ...]:
    return tuple(Axis(var, extent) for var, extent in points if extent > 1)


def f32(value: float) -> Const:
    return Const(value, "f32")
