"""Storage of quantised matmuls, as the rules of Table 1 need to know it."""

from __future__ import annotations

from dataclasses import dataclass

MATMUL_INT8 = "matmul_int8"
MATMUL_4BIT = "matmul_4bit"
MATMUL_8BIT = "matmul_8bit"
DEPTHWISE_INT8 = "depthwise_int8"
BLOCK_KINDS = {4: MATMUL_4BIT, 8: MATMUL_8BIT}
"""Kinds of products of floats with weights in blocks, by the bits of a weight."""
PEAK_FACTORS = {MATMUL_INT8: 4.0, DEPTHWISE_INT8: 4.0}
"""Rates beyond this multiple of the float32 peak are impossible: a vector has four times the
elements; 1 for every other kind."""


@dataclass(frozen=True)
class Storage:
    """How a template holds its operands."""

    element_bytes: int = 4
    """Bytes of A's elements, the larger ones."""
    per_word: int = 1
    """Steps of k that ``r0`` counts as one."""
    largest_r0: int = 4
    """The unroll that every tile is tried with first, at most."""
    limit_r0: int = 8
    """The largest unroll that divides every block of weights."""

    @property
    def whole_depth(self) -> bool:
        """Whether the reduction is never cut into blocks."""
        return self.per_word > 1

    def operations(self, x0: int, y0: int, r0: int) -> int:
        """SIMD operations of one unrolled body: multiply-adds, and loads and decoding of bytes."""
        vectors = -(-x0 // 4)
        if self.per_word == 1:
            return r0 * vectors * y0
        if self.element_bytes == 1:
            return 2 * r0 * (vectors + y0 * (1 + vectors))
        return r0 * self.per_word * vectors * (y0 + 4)


FLOAT32 = Storage()
STORAGES = {
    MATMUL_INT8: Storage(element_bytes=1, per_word=4),
    MATMUL_4BIT: Storage(element_bytes=4, per_word=8, largest_r0=1, limit_r0=2),
    MATMUL_8BIT: Storage(element_bytes=4, per_word=4, largest_r0=2, limit_r0=4),
}
"""By kind of workload; everything else is :data:`FLOAT32`."""
