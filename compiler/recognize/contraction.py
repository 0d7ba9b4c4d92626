"""A recognised matmul: ``out = epilogue(sum_k A[b, m, k] * B[b, k, n])``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.tensor_ir import Axis, Expr, Store
from nnjit_studio.compiler.recognize.subject import PackedWeight
from nnjit_studio.space.wasm.dot import DOT_KINDS

ACCUMULATOR = "$acc"
"""Name of the variable (f32) that stands for the finished sum in the epilogue."""


@dataclass(frozen=True)
class Operand:
    """A strided view of a flat buffer; strides and offset in elements.

    For A, ``row`` is the stride of m and ``column`` of k; for B of k and n.
    ``batch`` has one stride for each batch axis, 0 where it is broadcast. ``dtype`` is
    what it is stored in: f32, or for a weight f16, or i8 and u8 that count from ``zero`` on.
    """

    buffer: str
    offset: int
    batch: tuple[int, ...]
    row: int
    column: int
    dtype: str = "f32"
    zero: float = 0.0


@dataclass(frozen=True)
class Contraction:
    """Parameters of the matmul templates."""

    batch: tuple[Axis, ...]
    """Batch axes, outermost first, extents above 1; empty for matmul."""
    m: int
    n: int
    k: int
    m_var: str
    """The epilogue's name for the loop variable of m; batch axes go by their own names."""
    n_var: str
    """The epilogue's name for the loop variable of n."""
    a: Operand
    b: Operand
    packable: bool
    """B is constant and dense row-major: it may be packed. Unbatched it is K x N; with one
    batch axis of H it is K x H*N, and each batch has N columns of it."""
    epilogue: tuple[Store, ...]
    """One store for each output: index and value over batch variables, ``m_var``, ``n_var`` and
    ``Var(ACCUMULATOR)``."""
    labels: tuple[str, ...]
    """Words for what the epilogue does, such as ``bias``, ``gelu``, ``residual``, ``scale``;
    for the workload's name."""
    open: bool = False
    """Whether its sizes are one sample of many: a run may have few rows."""

    @property
    def batches(self) -> int:
        """How many products there are."""
        return math.prod(axis.extent for axis in self.batch)

    @property
    def kind(self) -> str:
        kind = "batch_matmul" if self.batch else "matmul"
        return DOT_KINDS[kind] if self.along_k else kind

    @property
    def dims(self) -> tuple[int, ...]:
        sizes = (self.m, self.k, self.n)
        return (self.batches, *sizes) if self.batch else sizes

    @property
    def flops(self) -> int:
        """Two for each multiply-add; the epilogue is not counted."""
        return 2 * self.batches * self.m * self.n * self.k

    @property
    def has_columns(self) -> bool:
        """Whether columns of B are neighbours, or may be made so by packing."""
        return self.packable or self.b.column == 1

    @property
    def along_k(self) -> bool:
        """Whether steps of the reduction are neighbours in both operands, columns of B are not."""
        strides = (self.a.column, self.b.row) == (1, 1) and self.b.column != 1
        return strides and self.k >= LANES and self.n > 1

    @property
    def along_bytes(self) -> bool:
        """Whether B is a table of bytes, whole vectors of them along the reduction."""
        whole = self.k % LANES == self.b.offset % LANES == self.b.column % LANES == 0
        return self.b.dtype in BYTES and self.along_k and not self.batch and whole

    @property
    def packed(self) -> PackedWeight | None:
        return PackedWeight(self.b.buffer, self.k, self.b.row) if self.packable else None

    def tunable(self, dtype: str) -> bool:
        # Lite spaces are of float32 results, and the templates are fast with no other B.
        return dtype == "f32" and (self.along_k or self.has_columns)


_Terms = tuple[tuple[str | Expr, int], ...]


def terms(c: Contraction, operand: Operand, inner: tuple[tuple[str, int], ...]) -> _Terms:
    """Addends of an operand's index: its batch axes, then the given ones."""
    batch = zip((axis.var for axis in c.batch), operand.batch, strict=True)
    return nonzero((*batch, *inner))


def nonzero(given: tuple[tuple[str, int], ...]) -> _Terms:
    """The addends that change an index."""
    return tuple(term for term in given if term[1])
