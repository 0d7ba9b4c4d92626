"""The kernels that a session tries: the lite space of its heaviest block, as tiles of donors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.foreign_wasm.turbo.kernels.module import donor_module
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import PANEL, Tile
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Kernel
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space.lite_space import SpaceEntry, build_lite_space

KIND = "sgemm_panels"
"""Kind of the workload in the database: all products of a model that its runtime cuts into blocks
of packed panels."""
FUSED_TIER = "relaxed-simd"


@dataclass(frozen=True)
class Block:
    """Calls of one kernel with equal sizes, as the recorder saw them in one inference.

    ``m`` is the most rows that one call was given, a block's; ``flops`` are of all its calls.
    """

    kernel: str
    m: int
    k: int
    n: int
    lda: int
    ldc: int
    calls: int
    flops: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def workload_of(blocks: Sequence[Block], originals: bytes) -> Workload:
    """What a model asks of the kernels, named after its heaviest block.

    The fingerprint covers all blocks and the original functions.
    """
    heaviest = max(blocks, key=lambda b: b.flops)
    sizes = sorted((b.kernel, b.m, b.k, b.n, b.lda, b.ldc, b.flops) for b in blocks)
    digest = hashlib.sha256(originals + repr(sizes).encode()).hexdigest()[:12]
    dims = heaviest.m, heaviest.k, heaviest.n
    flops = sum(b.flops for b in blocks)
    return Workload(KIND, dims, "f32", fingerprint=digest, flops=flops, tunable=True)


def candidates(workload: Workload, device: DeviceProfile) -> list[SpaceEntry]:
    """The lite space of the heaviest block, as far as tiles divide a panel; best guess first."""
    product = Workload("matmul", workload.dims, "f32")
    space = build_lite_space(product, device, packable=True)
    return [e for e in space.entries if _is_a_tile_of_panels(e.candidate, workload.dims[1])]


def _is_a_tile_of_panels(c: AnyCandidate, k: int) -> bool:
    """The runtime walks blocks and cuts the reduction itself, so that only tile and unroll vary."""
    return isinstance(c, Candidate) and PANEL % c.x0 == 0 and c.r1 == k and c.order == "nm"


def donor(workload: Workload, candidate: AnyCandidate, tier: str, shared: bool) -> Kernel:
    """The donor of a candidate; its module exports a function for each kernel of the contract."""
    assert isinstance(candidate, Candidate)
    tile = Tile(candidate.y0, candidate.x0, candidate.r0)
    data = donor_module(tile, tier == FUSED_TIER, shared)
    return Kernel(workload.key, candidate, tier, data, hashlib.sha256(data).hexdigest())


def blocks_of(recorded: Mapping[str, Any]) -> list[Block]:
    """The recorder's answer."""
    return [Block(**block) for block in recorded["blocks"]]


def tile_of(kernel: Kernel) -> tuple[int, int]:
    """Rows and columns."""
    assert isinstance(kernel.candidate, Candidate)
    return kernel.candidate.y0, kernel.candidate.x0
