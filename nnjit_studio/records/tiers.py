"""Tiers: the instruction sets that kernels are compiled for, Wasm's and WGSL's."""

from __future__ import annotations

from nnjit_studio.records.gpu_profile import GpuProfile

TIERS = ("simd128", "relaxed-simd")
GPU_TIERS = ("wgsl", "wgsl-subgroups")
"""Tiers of kernels in WGSL; a tier names the backend of its kernels."""
PACKED_WORDS = "packed_4x8_integer_dot_product"
"""The feature of WGSL that kernels of the second tier may need, in addition to subgroups."""


def gpu_tiers(gpu: GpuProfile) -> tuple[str, ...]:
    """The tiers whose kernels an adapter runs."""
    whole = "subgroups" in gpu.features and PACKED_WORDS in gpu.language_features
    return GPU_TIERS if whole else GPU_TIERS[:1]


def code_of(tier: str) -> str:
    """What kernels of a tier are written in: ``Wasm`` or ``WGSL``."""
    return "WGSL" if tier in GPU_TIERS else "Wasm"
