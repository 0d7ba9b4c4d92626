"""Lots of kernels by their digests: a page takes none that its bundle does not list.

Equal settings give equal bytes, so that an export can say beforehand what an honest service will
give, without shipping it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from nnjit_studio.commons.kernels.wanted import Wanted
from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import TIERS, CompileResult, Kernel
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space.lite_space import build_lite_space

LOT = 8
"""Candidates of one answer: about as many as a page tries in a visit."""
LISTED = 4
"""Lots of a workload that a bundle lists: the order goes from likely to unlikely."""
REGISTERS = (16, 32)
L1, L2 = 32 << 10, 512 << 10
"""What pages ask for: they cannot tell their caches, and equal questions have one answer."""

Compile = Callable[[Workload, AnyCandidate, Sequence[str]], CompileResult]


def lots_of(workload: Workload, packable: bool, compiled: Compile) -> dict[str, list[str]]:
    """Digests of the first lots by tier and registers, such as ``simd128/16``; none of a workload
    without a lite space."""
    found = {}
    for tier in TIERS:
        made: dict[AnyCandidate, CompileResult] = {}
        for registers in REGISTERS:
            device = Wanted(workload.key, tier, registers, L1, L2, 0).device
            try:
                entries = build_lite_space(workload, device, packable).entries
            except UserError:
                return {}
            candidates = [entry.candidate for entry in entries[: LOT * LISTED]]
            for each in candidates:
                made[each] = made.get(each) or compiled(workload, each, (tier,))
            lots = [candidates[i : i + LOT] for i in range(0, len(candidates), LOT)]
            found[f"{tier}/{registers}"] = [
                lot_digest([made[c].kernel(tier) for c in lot if not made[c].error]) for lot in lots
            ]
    return found


def lot_digest(kernels: Sequence[Kernel]) -> str:
    """SHA-256 of a line for each kernel: settings, hash, panels and trip count."""
    lines = (
        f"{k.settings} {k.sha256} {','.join(f'{a}:{w}' for a, w in k.panels)} {k.parallel_extent}"
        for k in kernels
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
