"""Facts about this machine's processor, on Linux, macOS and Windows."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from nnjit_studio.records import DeviceProfile

_CPUINFO = Path("/proc/cpuinfo")
_LINUX_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
FROM_SYSTEM, FROM_INSTRUCTIONS = "from the system", "from the instruction set"
_ARM = ("arm64", "aarch64", "armv8l")


@cache
def cpu_name() -> str:
    """Model name of the processor, such as the system shows it to its user."""
    system = platform.system()
    name = ""
    if system == "Linux" and _CPUINFO.is_file():
        fields = (line.partition(":") for line in _CPUINFO.read_text(errors="replace").splitlines())
        name = next((v.strip() for k, _, v in fields if k.strip() == "model name"), "")
    elif system == "Darwin":
        name = _sysctl("machdep.cpu.brand_string")
    elif system == "Windows":
        name = os.environ.get("PROCESSOR_IDENTIFIER", "")
    return name or platform.processor() or platform.machine() or "unknown"


def device_id() -> str:
    """16 hex digits, equal for equal processor model, core count and system.

    Nothing in it tells one machine from another of the same make.
    """
    facts = "|".join((cpu_name(), str(os.cpu_count()), platform.system(), platform.machine()))
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def vector_registers() -> int:
    """128-bit registers of the instruction set: 32 on ARM64, 16 on x64 (SSE, AVX)."""
    return 32 if platform.machine().lower() in _ARM else 16


@cache
def data_cache_bytes(level: int) -> int | None:
    """Capacity of one core's data cache of ``level`` 1 or 2, None if the system hides it."""
    if platform.system() == "Darwin":
        text = _sysctl({1: "hw.l1dcachesize", 2: "hw.l2cachesize"}[level])
        return int(text) if text.isdigit() else None
    for entry in sorted(_LINUX_CACHES.glob("index*")):
        try:
            if int((entry / "level").read_text()) != level:
                continue
            if (entry / "type").read_text().strip() in ("Data", "Unified"):
                size = (entry / "size").read_text().strip()
                return int(size.removesuffix("K")) * 1024 if size.endswith("K") else int(size)
        except (OSError, ValueError):
            continue
    return None


def host_profile(target: str = "") -> DeviceProfile:
    """The machine's own facts, without a page: registers and caches, no peak.

    Capacities that the system hides are assumed; ``sources`` says which.
    """
    caches = {"l1_bytes": data_cache_bytes(1), "l2_bytes": data_cache_bytes(2)}
    told: dict[str, Any] = {name: nbytes for name, nbytes in caches.items() if nbytes}
    sources = dict.fromkeys(told, FROM_SYSTEM)
    return replace(
        DeviceProfile(device_id(), target, cores=os.cpu_count() or 1),
        vector_registers=vector_registers(),
        **told,
        sources={"vector_registers": FROM_INSTRUCTIONS, **sources},
    )


def _sysctl(name: str) -> str:
    try:
        run = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""
