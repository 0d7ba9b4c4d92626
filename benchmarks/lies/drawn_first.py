"""First kernels that are drawn from the lite space: a session has something to win then."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.model import Workload
from nnjit_studio.records import CompileResult, DeviceProfile
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space.lite_space import build_lite_space


@dataclass(frozen=True)
class DrawnFirst(Compiler):
    """Makes a drawn candidate where the default kernel of a workload is asked for."""

    drawn: Mapping[str, AnyCandidate] = field(default_factory=dict)
    """By workload key."""

    def compile(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tiers: Sequence[str],
        passes: Collection[str] | None = None,
    ) -> CompileResult:
        if candidate is not None:
            return super().compile(workload, candidate, tiers, passes)
        made = super().compile(workload, self.drawn.get(workload.key), tiers, passes)
        kernels = tuple(replace(kernel, candidate=None) for kernel in made.kernels)
        return replace(made, candidate=None, kernels=kernels)


def draw(
    workloads: Sequence[Workload], packable: Collection[str], device: DeviceProfile, seed: int
) -> dict[str, AnyCandidate]:
    """A candidate of the lite space for each tunable workload; the same for the same seed."""
    rng = random.Random(seed)
    return {
        workload.key: rng.choice(
            build_lite_space(workload, device, workload.key in packable).entries
        ).candidate
        for workload in workloads
        if workload.tunable
    }
