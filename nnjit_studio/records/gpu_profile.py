"""The profile of a GPU adapter and of the WebGPU implementation that drives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_LIMITS: Mapping[str, int] = {
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupStorageSize": 16384,
    "maxComputeWorkgroupsPerDimension": 65535,
    "maxStorageBuffersPerShaderStage": 8,
}
"""What every WebGPU device allows (the specification's table of limits)."""


@dataclass(frozen=True)
class GpuProfile:
    """An adapter, as its implementation tells of it.

    The first five fields are WebGPU's ``GPUAdapterInfo``; empty where a browser hides them.
    """

    vendor: str = ""
    architecture: str = ""
    device: str = ""
    description: str = ""
    driver: str = ""
    implementation: str = "navigator"
    """``navigator``: the page's own ``navigator.gpu``; ``bridge``: wgpu-native behind the hub."""
    is_fallback: bool = False
    """Whether it is software on the processor: never called a GPU."""
    features: tuple[str, ...] = ()
    """Names of WebGPU features."""
    language_features: tuple[str, ...] = ()
    """Names of WGSL features."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """By WebGPU's name of the limit; bytes or counts."""
    subgroup_min: int = 0
    """Fewest invocations of a subgroup; 0 without subgroups."""
    subgroup_max: int = 0
    """Most invocations of a subgroup; 0 without subgroups."""
    timestamp_quantum_ns: float = 0.0
    """Step of the GPU's timestamps; 0 where there are none."""
    copy_gbs: float = 0.0
    """Probed 10^9 bytes a second, read and written, of a copy from buffer to buffer."""
    dispatch_us: float = 0.0
    """Probed microseconds of an empty dispatch among many of one pass."""
    cores: int = 16
    """Compute units."""
    registers_per_core: int = 65536
    """Of 32 bits."""
    warp: int = 32
    """Invocations that run in lockstep."""
    registers_per_thread: int = 128
    """Most registers of 32 bits that one invocation may use."""
    threads_per_core: int = 1024
    """Most invocations that a core keeps in flight."""
    shared_bytes_per_core: int = 32768
    """Most bytes of a core's workgroup memory."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where these six are from, by name of the field; what is not in it is assumed.
    :mod:`nnjit_studio.device.gpu_constants` fills them in."""

    @property
    def name(self) -> str:
        """For people: what the adapter is called, and that it is software where it is."""
        named = self.description or " ".join(filter(None, (self.vendor, self.architecture)))
        named = named or self.device or "unnamed adapter"
        return f"{named} (software, no GPU)" if self.is_fallback else named

    def limit(self, name: str) -> int:
        """A limit of the adapter, or what every device allows where it told none."""
        return int(self.limits.get(name, DEFAULT_LIMITS[name]))
