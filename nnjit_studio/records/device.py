"""The profile of a device and of the target that runs the page."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.quantised import PEAK_FACTORS
from nnjit_studio.records.tiers import GPU_TIERS

PRIMITIVE_VECTOR = "cache_read=0,cache_write=1,unroll=1,vectorize=1"
"""Web-consistent primitives, fixed (paper section 5.1), before anything was measured."""


@dataclass(frozen=True)
class DeviceProfile:
    """What is known of the device and of the target that runs the page.

    Registers are 128-bit vector registers that the engine can really use;
    capacities are bytes per core; the peak is one thread's best measured
    multiply-add rate, by tier. A kernel runs on at most ``threads`` threads.
    ``sources`` says where registers and capacities are from, by name of the
    field; what is not in it is assumed. ``primitive_vector`` names the
    primitives that are fixed (:mod:`nnjit_studio.device.primitives`).

    With ``gpu`` the kernels are WGSL: tiers and peaks are the adapter's, of the
    whole GPU, and ``device_id`` is its own.
    """

    device_id: str
    target: str
    user_agent: str = ""
    flags: str = ""
    cores: int = 1
    vector_registers: int = 16
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    timer_quantum_ms: float = 0.1
    tiers: tuple[str, ...] = ("simd128",)
    peak_gflops: dict[str, float] = field(default_factory=dict)
    cross_origin_isolated: bool = False
    threads: int = 1
    sources: dict[str, str] = field(default_factory=dict)
    primitive_vector: str = PRIMITIVE_VECTOR
    gpu: GpuProfile | None = None

    @property
    def label(self) -> str:
        """The target with its threads, such as ``embedded/2t``: what a measurement belongs to."""
        return self.target if self.threads == 1 else f"{self.target}/{self.threads}t"

    def peak(self, tier: str, kind: str = "") -> float | None:
        """Limit of a kind of workload: GFLOP/s of all threads together, None if not probed."""
        one = self.peak_gflops.get(tier)
        return None if one is None else one * self.threads * PEAK_FACTORS.get(kind, 1.0)

    @property
    def best_tier(self) -> str:
        if self.gpu is not None:
            return next(t for t in reversed(GPU_TIERS) if t in self.tiers)
        return "relaxed-simd" if "relaxed-simd" in self.tiers else "simd128"
