"""What a server of the commons knows for this device, measured first in a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.commons.client import ask, place_of
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.records.tuning import KernelKey

MEASURED = 2
"""Of a workload's believed settings: the leader and the next are always measured here."""


@dataclass(frozen=True)
class Known:
    """Candidates by kind, dims, dtype and layout, the most believed first."""

    kernels: Mapping[tuple[str, str, str, str], Sequence[AnyCandidate]]

    @classmethod
    def ask(cls, server: str, device: DeviceProfile) -> Known:
        """Ask a server for this kind of device.

        Raises
        ------
        UserError
            When the device is one that the commons has no words for, or the server none for us.
        """
        any_kernel = Workload("any", (1,), "any")
        key = KernelKey.of(any_kernel, device, device.best_tier, COMPILER_VERSION)
        home = None if device.gpu else place_of(key, host_profile(), device.user_agent)
        if home is None:
            raise UserError(
                "The commons knows Wasm kernels of Chromium, Firefox and WebKit only.",
                "Leave out --from.",
            )
        return cls(ask(server.rstrip("/"), home))

    def request(self, workloads: Sequence[str], measure: Callable[[str, str], bool]) -> str:
        """Have a session measure what is known of its workloads; says of how many something is."""
        asked = 0
        for key in workloads:
            candidates = self.kernels.get(parts_of(key), ())[:MEASURED]
            asked += bool(candidates)
            for candidate in candidates:
                measure(key, str(candidate))
        return f"The commons knows {asked} of {len(workloads)} workloads; they are measured first."


def parts_of(key: str) -> tuple[str, str, str, str]:
    """Kind, dims, dtype and layout of a workload's key, such as ``matmul:1x2x3:f32+bias#0a``."""
    head, *epilogue = key.split("#")[0].split("+")
    kind, dims, dtype = head.split(":")[:3]
    return kind, dims, dtype, "+".join(("row-major", *epilogue))
