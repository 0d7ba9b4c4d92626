"""Recognisers of matmuls whose weights are stored in 8 or 4 bits.

The importer writes such a sum with its weights in rows of 32-bit words, a word
for each column: four or eight values, neighbours in k. Values of floats' products lie in blocks
with scales. Below the words of int8 for products of bytes stands
one more row, which the sum does not read (:func:`in_words`). Written as a
float32 sum of products over the same axes, the program is one that
:mod:`nnjit_studio.compiler.recognize.matmul` reads; the operands' storage is kept separately.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.ir.affine import (
    LANES,
    LinearForm,
    linear_expr,
    linear_form,
    loads,
    rewrite,
    variables,
)
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.labels import epilogue_labels
from nnjit_studio.compiler.recognize.made_row import MadeRow, made_row
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.recognize.subject import PackedWeight
from nnjit_studio.records.quantised import BLOCK_KINDS, MATMUL_INT8

INT8_IN_WORD = 4
WORD_BITS = 32
_MASKS = {(1 << bits) - 1: bits for bits in BLOCK_KINDS}


@dataclass(frozen=True)
class Quantised:
    """A contraction and how its B is stored."""

    contraction: Contraction
    """Strides of A in elements; B is to be read from panels of words."""
    total: Store
    """Where the unfinished sum may stand."""
    per_word: int
    """Values of B in a word, neighbours in k: 4 (8 bits) or 8 (4 bits)."""
    scale: str = ""
    """In blocks: the buffer, K / ``block`` rows for N columns, of ``(v - zero) * scale``."""
    unit: float = 1.0
    """In blocks: what each element of the buffer ``scale`` is multiplied by."""
    zero: str | float = 0.0
    """In blocks: a buffer like that of ``scale``, or the number where it is one for all."""
    block: int = 0
    """Values along k that share a scale; 0 for products of bytes with bytes."""
    group_stride: int = 0
    """Elements between two rows of ``scale`` and ``zero``; whole vectors."""
    row: MadeRow | None = None
    """In blocks, of one row: how A is made, where the program makes it."""

    @property
    def bits(self) -> int:
        """Of a value of B."""
        return WORD_BITS // self.per_word

    @property
    def kind(self) -> str:
        return BLOCK_KINDS[self.bits] if self.block else MATMUL_INT8

    @property
    def dims(self) -> tuple[int, ...]:
        return self.contraction.dims

    @property
    def labels(self) -> tuple[str, ...]:
        made = () if self.row is None else ("norm",) if self.row.factor else ("elementwise",)
        return (*made, *self.contraction.labels)

    @property
    def flops(self) -> int:
        return self.contraction.flops

    @property
    def packed(self) -> PackedWeight:
        rows = self.words + (not self.block)
        return PackedWeight(self.contraction.b.buffer, rows, self.contraction.b.row)

    def tunable(self, dtype: str) -> bool:
        return self.block > 0 or not self.contraction.batch

    @property
    def words(self) -> int:
        """Rows of words along K."""
        return self.contraction.k // self.per_word


def in_words(weight: NDArray[np.int8]) -> NDArray[np.int8]:
    """K x N in words of four along k, and one more row: -128 times the sum of each column, int32.

    It is what a product has too much of whose other operand was moved by 128 into unsigned bytes.
    """
    n = weight.shape[1]
    words = weight.reshape(-1, INT8_IN_WORD, n).transpose(0, 2, 1)
    moved = (-128 * weight.sum(axis=0, dtype=np.int32)).astype(np.int32)
    return np.concatenate([words, moved.view(np.int8).reshape(1, n, INT8_IN_WORD)])


def recognize_int8(program: Program) -> Quantised | None:
    """Read a program as a matmul of bytes with bytes: ``i32(A[m, 4 q + r]) * i32(B[q, n, r])``."""
    found = sum_of_factors(program)
    return _int8(*found) if found else None


def recognize_blocks(program: Program) -> Quantised | None:
    """Read a program as a matmul of float32 with weights of 4 or 8 bits in blocks.

    ``A[m, g L + 8 q + r] * (f32((B[g Q + q, n] >> 4 r) & 15) - zero) * scale[g, n]``: blocks g of
    ``L = 8 Q`` values share a scale, of f32, or of f16 times a number; ``zero`` is a number or
    ``f32(zero[g, n])``. In 8 bits a word has four values, and 255 for 15.
    One row A may be made by the stages in front.
    """
    begin = max((i for i, stage in enumerate(program.stages) if stage.init), default=0)
    row = made_row(program, program.stages[:begin])
    if row is None:
        found = sum_of_factors(program)
        return _blocks(*found) if found else None
    given = tuple(replace(b, role="input") if b.name == row.buffer else b for b in program.buffers)
    found = sum_of_factors(replace(program, buffers=given, stages=program.stages[begin:]))
    product = _blocks(*found) if found else None
    if product is None or (product.contraction.m, product.contraction.k) != (1, row.length):
        return None
    whole = product.contraction.a.buffer == row.buffer and product.contraction.a.offset == 0
    return replace(product, row=row) if whole else None


def sum_of_factors(program: Program) -> tuple[Program, Load, list[Expr]] | None:
    """The program without its small stages, the sum that its first stage adds to, the factors."""
    if not program.stages or any(stage.steps for stage in program.stages):
        return None
    program = without_vectors(program)
    stage = program.stages[0]
    if len(stage.body) != 1 or len(stage.init) != 1:
        return None
    value = stage.body[0].value
    if not isinstance(value, Binary) or value.op != "add":
        return None
    target = stage.body[0].buffer
    sums = [e for e in (value.a, value.b) if isinstance(e, Load) and e.buffer == target]
    if len(sums) != 1:
        return None
    return program, sums[0], _factors(value.b if value.a is sums[0] else value.a)


def _factors(expr: Expr) -> list[Expr]:
    if isinstance(expr, Binary) and expr.op == "mul":
        return _factors(expr.a) + _factors(expr.b)
    return [expr]


def _int8(program: Program, target: Load, factors: list[Expr]) -> Quantised | None:
    operands = [
        f.value
        for f in factors
        if isinstance(f, Cast) and f.dtype == "i32" and isinstance(f.value, Load)
    ]
    if len(operands) != 2 or len(factors) != 2 or program.buffer(target.buffer).dtype != "i32":
        return None
    a, b = sorted(operands, key=lambda load: program.buffer(load.buffer).constant)
    weight = program.buffer(b.buffer)
    if program.buffer(a.buffer).dtype not in BYTES or weight.dtype not in BYTES:
        return None
    if not weight.constant or len(weight.shape) != 3 or weight.shape[2] != INT8_IN_WORD:
        return None
    rows, n, _ = weight.shape
    extents = program.stages[0].extents
    form = linear_form(b.index, extents)
    if form is None:
        return None
    # Bytes of a word, columns and rows of words have the strides 1, 4 and 4 N.
    strides = {1: n, INT8_IN_WORD: 1, INT8_IN_WORD * n: INT8_IN_WORD * n}
    index = _restrided(form, strides)
    return _read(program, target, a, b.buffer, index, INT8_IN_WORD, rows - 1, n)


def _blocks(program: Program, target: Load, factors: list[Expr]) -> Quantised | None:
    decoded = [f for f in factors if isinstance(f, Binary) and f.op == "sub"]
    loads_ = [f for f in factors if isinstance(f, Load)]
    units = [float(f.value) for f in factors if isinstance(f, Const)]
    if len(decoded) != 1 or len(loads_) != 2 or len(factors) != 3 + len(units):
        return None
    a, scale = sorted(loads_, key=lambda load: program.buffer(load.buffer).constant)
    found, zero = _word(decoded[0].a), decoded[0].b
    if found is None or program.buffer(found[0].buffer).dtype != "i32":
        return None
    word, shifted, bits = found
    per_word = WORD_BITS // bits
    if any(program.buffer(e.buffer).dtype != "f32" for e in (a, target)):
        return None
    if program.buffer(scale.buffer).dtype not in ("f32", "f16"):
        return None
    weight, shape = program.buffer(word.buffer), program.buffer(scale.buffer).shape
    if not weight.constant or len(weight.shape) != 2 or len(shape) != 2:
        return None
    words, n = weight.shape
    blocks, stride = shape
    extents = program.stages[0].extents
    at, shift, group = (linear_form(e, extents) for e in (word.index, shifted, scale.index))
    if at is None or shift is None or group is None or words % blocks:
        return None
    per_block = words // blocks
    within = _restrided(shift, {bits: n})
    columns = {c: c for c in at[1].values() if c < n}
    same = {n * per_block: stride, **columns}
    shared = {v: same[c] for v, c in at[1].items() if c in same}
    if within is None or group != (0, shared) or stride % LANES or stride < n:
        return None
    number: str | float
    if isinstance(zero, Const):
        number = float(zero.value)
    elif isinstance(zero, Cast) and zero.dtype == "f32" and isinstance(zero.value, Load):
        if linear_form(zero.value.index, extents) != group:
            return None
        number = zero.value.buffer
    else:
        return None
    rows = {n: per_word * n, n * per_block: per_word * n * per_block, **columns}
    index = _restrided(at, rows)
    if index is None:
        return None
    whole = index + within
    product = _read(program, target, a, weight.name, whole, per_word, words, n)
    return product and replace(
        product,
        scale=scale.buffer,
        unit=math.prod(units),
        zero=number,
        block=per_block * per_word,
        group_stride=stride,
    )


def _word(expr: Expr) -> tuple[Load, Expr, int] | None:
    """The load, the shift and the bits of ``f32((load >> shift) & 15)``; TVM may widen to i64."""
    if not isinstance(expr, Cast) or expr.dtype != "f32" or not isinstance(expr.value, Binary):
        return None
    masked = expr.value
    if masked.op != "bitand" or not isinstance(masked.b, Const) or masked.b.value not in _MASKS:
        return None
    shifted = masked.a
    if not isinstance(shifted, Binary) or shifted.op != "shr":
        return None
    word = shifted.a
    if isinstance(word, Cast) and word.dtype == "i64":
        word = word.value
    bits = _MASKS[int(masked.b.value)]
    return (word, shifted.b, bits) if isinstance(word, Load) else None


def _restrided(form: LinearForm, strides: Mapping[int, int]) -> Expr | None:
    """The same variables with other strides: those of a row-major K x N."""
    if form[0] or not set(form[1].values()) <= set(strides):
        return None
    return linear_expr((0, {var: strides[c] for var, c in form[1].items()}))


def _read(
    program: Program,
    target: Load,
    a: Load,
    weight: str,
    index: Expr | None,
    per_word: int,
    words: int,
    n: int,
) -> Quantised | None:
    """The program as a float32 matmul of A and a row-major B at ``index``."""
    if index is None:
        return None
    stage = program.stages[0]
    store = stage.body[0]
    product = a * Load(weight, index)
    plain = replace(
        stage,
        body=(replace(store, value=target + product),),
        init=(replace(stage.init[0], value=Const(0.0, "f32")),),
    )
    k = words * per_word
    virtual = {
        a.buffer: replace(program.buffer(a.buffer), dtype="f32"),
        weight: replace(program.buffer(weight), dtype="f32", shape=(k, n)),
        # As an output the sum keeps its place among the stores.
        target.buffer: replace(program.buffer(target.buffer), dtype="f32", role="output"),
    }
    buffers = tuple(virtual.get(b.name, b) for b in program.buffers)
    found = recognize(Program(program.name, buffers, (plain, *program.stages[1:])))
    if found is None or found.b.buffer != weight or not found.packable or found.k != k:
        return None
    total, *stores = found.epilogue
    if program.buffer(target.buffer).role == "output":
        stores = [total, *stores]
    labels = epilogue_labels(stores[-1].value, program, found.m_var, found.n_var)
    contraction = replace(found, epilogue=tuple(stores), labels=labels)
    return Quantised(contraction, total, per_word)


def without_vectors(program: Program) -> Program:
    """Stages that compute a number or a vector from inputs, put in place where it is read.

    TVM keeps what is smaller than the sum, such as the product of two scales,
    out of the stages over the sum's points: behind the sum, or in front of it
    where the model has it so. Workspaces that nobody uses then are left out.
    """
    if any(stage.steps for stage in program.stages):
        return program
    inputs = {b.name for b in program.buffers if b.role == "input"}
    known: dict[str, tuple[tuple[Axis, ...], Expr, Expr]] = {}
    kept: list[Stage] = []

    def inline(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in known:
            return None
        axes, place, value = known[expr.buffer]
        if len(axes) > 1:
            return rewrite(value, lambda e: expr.index if e == place else None)
        at = {axis.var: expr.index for axis in axes}
        return rewrite(value, lambda e: at.get(e.name) if isinstance(e, Var) else None)

    for stage in program.stages:
        body = tuple(replace(s, value=rewrite(s.value, inline)) for s in stage.body)
        index = Var(stage.axes[0].var) if stage.axes else Const(0, "i32")
        small = len(stage.axes) <= 1 and not stage.init and len(body) == 1
        rows = bool(kept) and _by_row(stage, kept[0])
        if rows or (small and body[0].index == index):
            target = program.buffer(body[0].buffer)
            read = {load.buffer for load in loads(body[0].value)}
            if target.role == "workspace" and inputs.issuperset(read):
                known[target.name] = stage.axes, body[0].index, body[0].value
                continue
        kept.append(replace(stage, body=body))
    buffers = tuple(b for b in program.buffers if b.name not in known)
    return replace(program, buffers=buffers, stages=tuple(kept)) if known else program


def _by_row(stage: Stage, first: Stage) -> bool:
    """Whether a number for each row, over several axes, depends on its own flat place alone.

    There are fewer of them than results of the first stage, the sum.
    """

    def points(of: Stage) -> int:
        return math.prod(a.extent for a in of.axes if a.kind != "reduce")

    if stage.init or len(stage.body) != 1 or len(stage.axes) < 2 or not first.init:
        return False
    (store,) = stage.body
    rest = rewrite(store.value, lambda e: Const(0, "i32") if e == store.index else None)
    return points(stage) < points(first) and not variables(rest)
