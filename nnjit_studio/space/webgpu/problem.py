"""A problem as the rules of a GPU's lite spaces see it, and what a candidate takes of the GPU."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.webgpu.usage import MATVEC_ROWS, MAX_THREADS


@dataclass(frozen=True)
class GpuProblem(ABC):
    """What the rules look at beside the candidate; extents of one product in elements."""

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
