"""Constants of GPUs that no adapter tells: a small table by vendor and architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nnjit_studio.errors import UserError
from nnjit_studio.records.gpu_profile import GpuProfile


@dataclass(frozen=True)
class Constants:
    """A row of the table; the fields are those of :class:`GpuProfile`.

    ``workgroup_bytes`` is the limit that adapters usually tell, for a GPU that was not
    probed; ``source`` is for all.
    """

    cores: int
    registers_per_core: int
    registers_per_thread: int
    threads_per_core: int
    shared_bytes_per_core: int
    warp: int
    workgroup_bytes: int
    source: str


_CUDA = "CUDA C++ Programming Guide, technical specifications by compute capability"
_RDNA = "AMD RDNA instruction set guides, two SIMDs of a compute unit"
_VEGA = "AMD Vega instruction set guide"
_ONEAPI = "Intel oneAPI GPU optimization guide"
_STUDIES = "public studies of Apple's GPU cores"
_ARM = "Arm GPU datasheet: 1024 threads of 32 registers"
_ASSUMED = "assumed: a small GPU of this vendor"

CONSTANTS: Mapping[str, Constants] = {
    "nvidia": Constants(40, 65536, 255, 1536, 100 << 10, 32, 48 << 10, _CUDA),
    "nvidia/turing": Constants(40, 65536, 255, 1024, 64 << 10, 32, 48 << 10, _CUDA),
    "nvidia/hopper": Constants(132, 65536, 255, 2048, 228 << 10, 32, 48 << 10, _CUDA),
    "amd": Constants(32, 65536, 256, 2048, 64 << 10, 32, 32 << 10, _RDNA),
    "amd/gcn-5": Constants(32, 65536, 256, 2560, 64 << 10, 64, 32 << 10, _VEGA),
    "intel": Constants(24, 65536, 128, 1024, 64 << 10, 16, 32 << 10, _ONEAPI),
    "apple": Constants(10, 53248, 128, 1024, 60 << 10, 32, 32 << 10, _STUDIES),
    "qualcomm": Constants(4, 32768, 64, 1024, 32 << 10, 64, 32 << 10, _ASSUMED),
    "arm": Constants(8, 32768, 64, 1024, 32 << 10, 16, 32 << 10, _ARM),
    "software": Constants(
        4, 65536, 255, 1024, 64 << 10, 4, 16 << 10, "assumed: vectors of a processor"
    ),
    "": Constants(16, 65536, 128, 1024, 32 << 10, 32, 16 << 10, "assumed: the vendor is not known"),
}
"""By vendor, or by vendor and architecture, as WebGPU's ``GPUAdapterInfo`` spells them."""

CORES: tuple[tuple[str, int], ...] = (
    (r"\bH[12]00 PCIe\b", 114),
    (r"\b(H100|H200|GH200)\b", 132),
    (r"\bA100\b", 108),
    (r"\bL40S?\b", 142),
    (r"\bL4\b", 60),
    (r"\bT4\b", 40),
    (r"\bRTX 4090\b", 128),
    (r"\bRTX 4060\b", 24),
    (r"\bRTX 3090\b", 82),
    (r"\bRTX 3060\b", 28),
    (r"\bRX 7900 XTX\b", 96),
    (r"\bRX 6600\b", 28),
    (r"\bApple M\d Ultra\b", 60),
    (r"\bApple M\d Max\b", 32),
    (r"\bApple M\d Pro\b", 16),
)
"""Cores by the name that a driver gives the device, first match; from vendors' data sheets."""

_SOFTWARE = re.compile(r"swiftshader|llvmpipe|lavapipe|software|basic render", re.IGNORECASE)
_SPELLINGS: Mapping[str, str] = {
    "0x10de": "nvidia",
    "0x1002": "amd",
    "0x8086": "intel",
    "0x106b": "apple",
    "0x5143": "qualcomm",
    "0x13b5": "arm",
}
"""PCI numbers, where an implementation gives those."""
_NAMES = (
    "cores",
    "registers_per_core",
    "registers_per_thread",
    "threads_per_core",
    "shared_bytes_per_core",
    "warp",
)


def constants_of(gpu: GpuProfile) -> Constants:
    """The row of an adapter's architecture, else of its vendor, else assumed numbers."""
    vendor = gpu.vendor.lower()
    name = _SPELLINGS.get(vendor, vendor)
    if gpu.is_fallback or _SOFTWARE.search(f"{gpu.description} {gpu.device} {vendor}"):
        name = "software"
    plain = CONSTANTS.get(name, CONSTANTS[""])
    return CONSTANTS.get(f"{name}/{gpu.architecture.lower()}", plain)


def typical(name: str) -> GpuProfile:
    """A GPU that nobody probed, by a name of :data:`CONSTANTS`: ``nvidia/hopper``.

    Raises
    ------
    UserError
        When the table has no such name.
    """
    if name not in CONSTANTS:
        raise UserError(
            f"There is no GPU {name!r} in the table.", f"Use {', '.join(filter(None, CONSTANTS))}."
        )
    vendor, _, architecture = name.partition("/")
    limits = {"maxComputeWorkgroupStorageSize": CONSTANTS[name].workgroup_bytes}
    return with_constants(GpuProfile(vendor=vendor, architecture=architecture, limits=limits))


def with_constants(gpu: GpuProfile) -> GpuProfile:
    """A probed profile with the table's constants and where they are from.

    The number of cores is the device's own where its name is known (:data:`CORES`), else
    typical for the architecture; the warp is the adapter's smallest subgroup where it
    tells one.
    """
    row = constants_of(gpu)
    values = {name: getattr(row, name) for name in _NAMES}
    sources = dict.fromkeys(_NAMES, row.source)
    sources["cores"] = f"typical: {row.source}"
    for pattern, count in CORES:
        if re.search(pattern, f"{gpu.description} {gpu.device}", re.IGNORECASE):
            values["cores"], sources["cores"] = count, "data sheet of the device"
            break
    if gpu.subgroup_min:
        values["warp"], sources["warp"] = gpu.subgroup_min, "the adapter's smallest subgroup"
    return replace(gpu, **values, sources={**gpu.sources, **sources})
