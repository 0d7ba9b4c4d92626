"""Device profiles from the page's facts about its engine and its GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nnjit_studio.device.gpu_constants import with_constants
from nnjit_studio.device.host import device_id, host_profile
from nnjit_studio.engine.messages.replies import read
from nnjit_studio.errors import TargetError
from nnjit_studio.records import TIERS, DeviceProfile, gpu_tiers
from nnjit_studio.records.backend import SOFTWARE_SUFFIX
from nnjit_studio.records.gpu_profile import GpuProfile

GPU_PRIMITIVES = "cache_shared=1,unroll=1,vectorize=1"
"""The WGSL templates' fixed primitives, in place of the Wasm ones."""


GPU_PROBED = (
    "vendor", "architecture", "device", "description", "driver", "implementation", "is_fallback",
    "features", "language_features", "limits", "subgroup_min", "subgroup_max",
    "timestamp_quantum_ns", "copy_gbs", "dispatch_us",
)  # fmt: skip
"""What every ``gpu_probed`` with an adapter has."""


@dataclass(frozen=True)
class _Probed:
    simd: bool
    relaxed_simd: bool
    threads: bool
    cores: int
    timer_quantum_ms: float
    user_agent: str
    cross_origin_isolated: bool
    peak_gflops: dict[str, float]


@dataclass(frozen=True)
class _GpuProbed:
    available: bool
    reason: str = ""
    peak_gflops: float = 0.0


def page_device(reply: Mapping[str, Any], target: str, threads: int) -> DeviceProfile:
    """The profile by the page's ``probed``, completed by the machine's own facts.

    Raises
    ------
    TargetError
        When the engine has no Wasm SIMD, or no shared memory for the threads asked for.
    """
    probed = read(reply, _Probed)
    if not probed.simd:
        raise TargetError(f"The target {target!r} has no WebAssembly SIMD.", "Use a newer browser.")
    if threads > 1 and not probed.threads:
        raise TargetError(
            f"The target {target!r} has no shared memory, so kernels run on one thread.",
            "Use --threads 1 or another browser.",
        )
    return replace(
        host_profile(target),
        user_agent=probed.user_agent,
        cores=probed.cores,
        timer_quantum_ms=probed.timer_quantum_ms,
        tiers=TIERS[: 1 + probed.relaxed_simd],
        peak_gflops=probed.peak_gflops,
        cross_origin_isolated=probed.cross_origin_isolated,
        threads=threads,
    )


def gpu_device(reply: Mapping[str, Any], page: DeviceProfile) -> DeviceProfile:
    """The profile by the page's ``gpu_probed``, completed by that of the page.

    Raises
    ------
    TargetError
        When there is no adapter.
    """
    probed = read(reply, _GpuProbed)
    if not probed.available:
        raise TargetError(
            f"The target {page.target!r} has no WebGPU adapter: {probed.reason}",
            "`nnjit doctor` lists the adapters; --backend wasm needs none.",
        )
    gpu = with_constants(read(reply, GpuProfile, GPU_PROBED))
    tiers = gpu_tiers(gpu)
    return replace(
        page,
        device_id=adapter_id(gpu),
        target=page.target + (SOFTWARE_SUFFIX if gpu.is_fallback else ""),
        tiers=tiers,
        peak_gflops=dict.fromkeys(tiers, probed.peak_gflops) if probed.peak_gflops > 0 else {},
        primitive_vector=GPU_PRIMITIVES,
        gpu=gpu,
    )


def adapter_id(gpu: GpuProfile) -> str:
    """16 hex digits, equal for equal adapters, whichever implementation runs them.

    Of one in software the processor is a part: it sets the speed.
    """
    facts = [gpu.vendor, gpu.architecture, gpu.device, gpu.description]
    facts += [device_id()] if gpu.is_fallback else []
    return hashlib.sha256("|".join(facts).encode()).hexdigest()[:16]
