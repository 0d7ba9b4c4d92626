"""A GPU space larger than the lite one, to check the heuristics by."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.matmul import (
    R1_CHOICES,
    ROW_R0_CHOICES,
    ROW_R1_CHOICES,
    ROW_THREADS_CHOICES,
    ROW_X0_CHOICES,
    SPLIT_CHOICES,
    X1_CHOICES,
    Y1_CHOICES,
    GpuRule,
    MatmulProblem,
    problem_size,
    shared_memory,
    threads,
)

THREAD_CHOICES = (1, 2, 4, 8, 16)
"""Columns, and rows, of a thread."""
R0_CHOICES = (1, 2, 4, 8, 16)
KEPT_RULES: tuple[GpuRule, ...] = (problem_size, threads, shared_memory)
"""Rules that a kernel must keep to run at all, or to compute more than padding."""


def wide_candidates(problem: MatmulProblem) -> Iterator[GpuCandidate]:
    """Any powers of two in any combination, whatever registers and cores make of them."""
    return (c for c in _grid(problem) if all(rule(c, problem)[0] for rule in KEPT_RULES))


def _grid(p: MatmulProblem) -> Iterator[GpuCandidate]:
    if p.few_rows:
        rows = 1 << (p.m - 1).bit_length()
        for x0, across, r0, r1, split in product(
            ROW_X0_CHOICES, ROW_THREADS_CHOICES, ROW_R0_CHOICES, ROW_R1_CHOICES, SPLIT_CHOICES
        ):
            if r1 >= r0:
                yield GpuCandidate(x0, rows, r0, x0 * across, rows, r1, split)
        return
    for x0, y0, x1, y1 in product(THREAD_CHOICES, THREAD_CHOICES, X1_CHOICES, Y1_CHOICES):
        if x0 <= x1 and y0 <= y1:
            for r0, r1, split in product(R0_CHOICES, R1_CHOICES, SPLIT_CHOICES):
                if r0 <= r1:
                    yield GpuCandidate(x0, y0, r0, x1, y1, r1, split)
