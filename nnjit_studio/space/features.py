"""The numbers of a Wasm candidate that the cost model weighs."""

from __future__ import annotations

from typing import NamedTuple


class Features(NamedTuple):
    """Around 0 to 2 each."""

    intensity: float
    """log2 of multiply-adds by loaded element (:func:`heuristics.intensity`)."""
    few_sums: float
    """Share of eight sums that the tile lacks: two multiply-add units with a latency of four
    cycles want eight that do not wait for each other."""
    spilled: float
    """Vectors that find no register (sums, one row of B, one splat of A; of dot products the
    operands and the engine's own), by all registers."""
    tail_rows: float
    """Share of M in remainders, which are smaller tiles."""
    tail_columns: float
    """Share of N in remainders."""
    unroll: float
    """log2 of r0."""
    no_unroll: float
    """1 where r0 is 1."""
    blocks_of_k: float = 0.0
    """log2 of K by r1."""
    over_l1: float = 0.0
    """log2 of the block's bytes by L1, where it is larger."""
    streamed: float = 0.0
    """log2 of the operand that is read again for each block by half of L2, where larger."""
    order_mn: float = 0.0
    """1 for the order ``mn``."""
    narrow_rows: float = 0.0
    """1 where four columns are read out of the rows of a B that is not packed; of dot products
    with an epilogue: share of columns that fill no whole vector of results."""
    block_rows: float = 0.0
    """Of a convolution: log2 of output rows by rows of a block; of dot products: 1 where a
    block holds several tiles; else 0."""
