"""The problem of a GPU's lite space: extents, and the resources that a candidate takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.webgpu.usage import MATVEC_ROWS, MAX_THREADS

FIXED_REGISTERS = 16
"""Of a thread, for addresses and counters, in addition to Table 1's."""


@dataclass(frozen=True)
class GpuProblem(ABC):
    """The workload and GPU that the rules look at; extents of one product in elements."""

    batch: int
    m: int
    k: int
    n: int
    gpu: GpuProfile
    along_k: bool

    @property
    def few_rows(self) -> bool:
        """Whether a template reads B once for all rows."""
        return self.m <= MATVEC_ROWS

    @property
    @abstractmethod
    def family(self) -> str:
        """Workloads that the cost model learns from together."""

    @abstractmethod
    def workgroups(self, c: GpuCandidate) -> int:
        """Without the parts of a split reduction."""

    def threads(self, c: GpuCandidate) -> int:
        """Of a workgroup."""
        return c.threads

    @abstractmethod
    def registers(self, c: GpuCandidate) -> int:
        """``Reg_thread`` and what addresses take."""

    @abstractmethod
    def shared_bytes(self, c: GpuCandidate) -> int:
        """``L1_block``: workgroup memory in bytes."""

    @abstractmethod
    def cost(self, c: GpuCandidate) -> float:
        """Expected time in multiply-adds of the busiest core: it orders the space, no more."""

    @property
    def threads_limit(self) -> int:
        return min(MAX_THREADS, self.gpu.limit("maxComputeInvocationsPerWorkgroup"))

    def block_limits(self, c: GpuCandidate) -> tuple[float, float, float]:
        """``RegLimit``, ``L1Limit`` and ``WarpLimit`` of Table 1: blocks on a core by each."""
        threads, shared = self.threads(c), self.shared_bytes(c)
        return (
            self.gpu.registers_per_core / (self.registers(c) * threads),
            self.gpu.shared_bytes_per_core / shared if shared else math.inf,
            self.gpu.threads_per_core / threads,
        )

    def blocks_per_core(self, c: GpuCandidate) -> int:
        """``Block_core`` of Table 1."""
        return max(1, int(min(self.block_limits(c))))


_P = TypeVar("_P", bound=GpuProblem)
GpuRules = Sequence[Callable[[GpuCandidate, _P], tuple[bool, str]]]


def cheapest(
    found: Iterable[GpuCandidate], problem: _P, rules: GpuRules[_P], most: int | None = None
) -> list[GpuCandidate]:
    """What every rule accepts, the fastest expected first."""
    accepted = (c for c in found if all(rule(c, problem)[0] for rule in rules))
    return sorted(accepted, key=lambda c: (problem.cost(c), c))[:most]


def shared_memory(c: GpuCandidate, p: GpuProblem) -> tuple[bool, str]:
    """Heuristic 6, with the adapter's limit."""
    used, limit = p.shared_bytes(c), p.gpu.limit("maxComputeWorkgroupStorageSize")
    return used <= limit, f"L1_block {used:,} of {limit:,} bytes"


def registers(c: GpuCandidate, p: GpuProblem) -> tuple[bool, str]:
    """Heuristic 7 without its second half, for kernels that wait for memory."""
    used, most = p.registers(c), p.gpu.registers_per_thread
    ok = used <= most and p.block_limits(c)[0] >= 1
    return ok, f"Reg_thread {used} of {most}; Block_core {p.blocks_per_core(c)}"
