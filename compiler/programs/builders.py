"""Workloads from their one-line spelling, without a model and without TVM.

``kind:dims:dtype[+epilogue...]``, such as ``matmul:384x768x768:f32+bias+gelu``.
A new kind is one more entry in :data:`BUILDERS`.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.compiler.programs.conv2d import conv2d_program
from nnjit_studio.compiler.recognize.subject import prepared
from nnjit_studio.errors import UserError
from nnjit_studio.space.wasm.conv2d import CONV2D
from nnjit_studio.space.wasm.dot import DOT_KINDS
from nnjit_studio.space.webgpu.attention import ATTENTION

EPILOGUES = ("bias", "gelu", "relu", "residual")
SPELLING = """\
A workload is written kind:dims:dtype, then +bias, +gelu, +relu or +residual in order:

  matmul:MxKxN:f32           A x B with a constant B, a weight: it may be packed
  matmul_var:MxKxN:f32       the same with B an input like A
  batch_matmul:BxMxKxN:f32   B products, both operands inputs
  matmul_dot:MxKxN:f32       inputs, B stored as N rows of K: QK^T without a transpose,
  batch_matmul_dot:BxMxKxN:f32
                             a head that reads the table of embeddings
  conv2d:NxCxHxWxOxKHxKWxSTRIDExPADxDILATIONxGROUPS:f32
                             NCHW, constant weights; no +gelu

  attention:BxMxNxD:f32      B heads of M queries, N keys and a width of D, in one kernel on a GPU

M rows, K the reduction, N columns; for conv2d N images of C channels, O output channels."""
MAX_ELEMENTS = 1 << 28
"""Of one tensor: 1 GiB of float32, a quarter of what a page's memory can hold."""

_SPEC = re.compile(r"(?P<kind>[a-z]\w*):(?P<dims>\d+(x\d+)*):(?P<dtype>\w+)(?P<tail>(\+\w+)*)")


@dataclass(frozen=True)
class WorkloadSpec:
    """A parsed spelling; ``dims`` as the kind wants them."""

    kind: str
    dims: tuple[int, ...]
    dtype: str
    epilogue: tuple[str, ...] = ()

    def __str__(self) -> str:
        dims = "x".join(map(str, self.dims))
        return "+".join((f"{self.kind}:{dims}:{self.dtype}", *self.epilogue))

    @classmethod
    def parse(cls, text: str) -> WorkloadSpec:
        """Read a spelling.

        Raises
        ------
        UserError
            When it is none, or its kind, dtype or epilogue is not known.
        """
        match = _SPEC.fullmatch(text.strip())
        if match is None:
            raise UserError(f"{text!r} is not a workload.", "Write it as matmul:384x768x768:f32.")
        dims = tuple(int(d) for d in match["dims"].split("x"))
        epilogue = tuple(filter(None, match["tail"].split("+")))
        spec = cls(match["kind"], dims, match["dtype"], epilogue)
        if spec.kind not in BUILDERS:
            raise _unknown("kind", spec.kind, text, BUILDERS)
        if spec.dtype != "f32":
            raise _unknown("dtype", spec.dtype, text, ("f32",))
        for word in spec.epilogue:
            if word not in EPILOGUES:
                raise _unknown("epilogue", word, text, EPILOGUES)
        padding = 8 if spec.kind == CONV2D else None  # the one dim that may be 0
        if min(d for i, d in enumerate(dims) if i != padding) < 1:
            raise UserError(f"{text!r} has a dimension of 0.", "Dimensions are at least 1.")
        return spec


def looks_like_spec(text: str) -> bool:
    """Whether a text is meant as a workload, not as the path of a model."""
    return _SPEC.fullmatch(text.strip()) is not None


def program_for(spec: str | WorkloadSpec) -> Program:
    """The program of a workload, in the form that the importer gives it.

    Raises
    ------
    UserError
        When the spelling cannot be read or the tensors are too large.
    """
    parsed = WorkloadSpec.parse(spec) if isinstance(spec, str) else spec
    program = BUILDERS[parsed.kind](parsed)
    if any(math.prod(b.shape) > MAX_ELEMENTS for b in program.buffers):
        raise UserError(
            f"A tensor of {parsed} has more than {MAX_ELEMENTS} elements.", "Give smaller dims."
        )
    return program


def seeded_input(spec: str, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Uniform numbers in [-1, 1); equal arguments give equal numbers."""
    rng = np.random.default_rng([zlib.crc32(spec.encode()), zlib.crc32(name.encode())])
    return rng.uniform(-1, 1, shape).astype(np.float32)


def _matmul(spec: WorkloadSpec) -> Program:
    m, k, n = _dims(spec, "MxKxN", 3)
    constant, along_k = spec.kind == "matmul", spec.kind == DOT_KINDS["matmul"]
    return _product(spec, (), m, k, n, constant, along_k)


def _conv2d(spec: WorkloadSpec) -> Program:
    return prepared(conv2d_program(spec.dims, spec.epilogue))


def _batch_matmul(spec: WorkloadSpec) -> Program:
    batch, m, k, n = _dims(spec, "BxMxKxN", 4)
    return _product(spec, (batch,), m, k, n, False, spec.kind == DOT_KINDS["batch_matmul"])


def _attention(spec: WorkloadSpec) -> Program:
    heads, queries, keys, depth = _dims(spec, "BxMxNxD", 4)
    if spec.epilogue:
        raise _unknown("epilogue", spec.epilogue[0], str(spec), ("none",))
    return attention(heads, queries, keys, depth)


BUILDERS: dict[str, Callable[[WorkloadSpec], Program]] = {
    "matmul": _matmul,
    "matmul_var": _matmul,
    "batch_matmul": _batch_matmul,
    DOT_KINDS["matmul"]: _matmul,
    DOT_KINDS["batch_matmul"]: _batch_matmul,
    CONV2D: _conv2d,
    ATTENTION: _attention,
}


def _product(
    spec: WorkloadSpec,
    batch: tuple[int, ...],
    m: int,
    k: int,
    n: int,
    constant: bool,
    along_k: bool,
) -> Program:
    points = (*((f"b{i}", extent) for i, extent in enumerate(batch)), ("i", m), ("j", n))
    outer = points[:-2]
    shape = (*batch, m, n)
    of_b = (("j", n), ("r", k)) if along_k else (("r", k), ("j", n))
    buffers = [
        Buffer("in0", "f32", (*batch, m, k), "input"),
        Buffer("in1", "f32", (*batch, *(extent for _, extent in of_b)), "input", constant),
    ]
    place = row_major(points)
    target = "ws0" if spec.epilogue else "out0"
    product = Binary(
        "mul",
        Load("in0", row_major((*outer, ("i", m), ("r", k)))),
        Load("in1", row_major((*outer, *of_b))),
    )
    total = Stage(
        "sum",
        (*axes(points), Axis("r", k, "reduce")),
        (Store(target, place, Binary("add", Load(target, place), product)),),
        (Store(target, place, f32(0.0)),),
    )
    if not spec.epilogue:
        return Program(spec.kind, (*buffers, Buffer("out0", "f32", shape, "output")), (total,))
    value, more = epilogue_of(spec.epilogue, Load("ws0", place), points, len(buffers))
    tail = Stage("tail", axes(points), (Store("out0", place, value),))
    results = (Buffer("out0", "f32", shape, "output"), Buffer("ws0", "f32", shape, "workspace"))
    return Program(
        "_".join((spec.kind, *spec.epilogue)), (*buffers, *more, *results), (total, tail)
    )


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


def _dims(spec: WorkloadSpec, wanted: str, count: int) -> tuple[int, ...]:
    if len(spec.dims) != count:
        raise UserError(f"{spec} has {len(spec.dims)} dims.", f"{spec.kind} wants {wanted}.")
    return spec.dims


def _unknown(what: str, word: str, text: str, known: Iterable[str]) -> UserError:
    return UserError(f"The {what} {word!r} of {text!r} is not known.", f"Use {', '.join(known)}.")
