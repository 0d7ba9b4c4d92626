"""Compiled kernels, and the result of a compilation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel of one tier."""

    workload: str
    candidate: AnyCandidate | None
    tier: str
    data: bytes
    """The Wasm module. It exports ``run(pointers..., begin, end)`` and imports ``env.memory``
    alone. Of a GPU tier: the kernel document, see ``docs/webgpu.md``."""
    sha256: str
    panels: tuple[tuple[int, int], ...] = ()
    """``(argument index, panel width)`` for each weight that it wants in panels; every other
    argument is row-major."""
    parallel_extent: int = 1
    """The trip count of the outermost loop: ``run`` covers ``begin..end`` of it, and
    ``0..parallel_extent`` is the whole kernel."""

    @property
    def settings(self) -> str:
        return settings_of(self.candidate)

    def header(self) -> dict[str, Any]:
        """Everything but the bytes, as JSON."""
        return {
            "workload": self.workload,
            "settings": self.settings,
            "tier": self.tier,
            "sha256": self.sha256,
            "panels": [list(p) for p in self.panels],
            "parallel_extent": self.parallel_extent,
        }


@dataclass(frozen=True)
class CompileResult:
    """A kernel in every tier asked for, or the reason why there is none.

    ``ms`` is from settings to bytes, mean of the tiers; ``pass_ms`` splits it
    by the names in the one list of passes.
    """

    workload: str
    candidate: AnyCandidate | None
    kernels: tuple[Kernel, ...] = ()
    ms: float = 0.0
    pass_ms: dict[str, float] = field(default_factory=dict)
    error: str = ""

    def kernel(self, tier: str) -> Kernel:
        return next(k for k in self.kernels if k.tier == tier)
