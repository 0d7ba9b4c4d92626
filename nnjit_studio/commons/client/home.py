"""What a device asks with, and how its workloads are named in an answer."""

from __future__ import annotations

from nnjit_studio.commons.client.findings import place_of
from nnjit_studio.commons.report.document import Place
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.tuning import KernelKey


def home_of(device: DeviceProfile) -> Place:
    """The kind of a device, with a kernel that stands for all.

    Raises
    ------
    UserError
        When the device is one that the commons has no words for.
    """
    any_kernel = Workload("any", (1,), "any")
    key = KernelKey.of(any_kernel, device, device.best_tier, COMPILER_VERSION)
    home = None if device.gpu else place_of(key, host_profile(), device.user_agent)
    if home is None:
        raise UserError(
            "The commons knows Wasm kernels of Chromium, Firefox and WebKit only.",
            "Ask for none here.",
        )
    return home


def parts_of(key: str) -> tuple[str, str, str, str]:
    """Kind, dims, dtype and layout of a workload's key, such as ``matmul:1x2x3:f32+bias#0a``."""
    head, *epilogue = key.split("#")[0].split("+")
    kind, dims, dtype = head.split(":")[:3]
    return kind, dims, dtype, "+".join(("row-major", *epilogue))
