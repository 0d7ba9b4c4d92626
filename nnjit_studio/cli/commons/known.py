"""What a server of the commons knows for this device, measured first in a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.commons.client import ask
from nnjit_studio.commons.client.home import home_of, parts_of
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_candidate import AnyCandidate

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
        return cls(ask(server.rstrip("/"), home_of(device)))

    def request(self, workloads: Sequence[str], measure: Callable[[str, str], bool]) -> str:
        """Have a session measure what is known of its workloads; says of how many something is."""
        asked = 0
        for key in workloads:
            candidates = self.kernels.get(parts_of(key), ())[:MEASURED]
            asked += bool(candidates)
            for candidate in candidates:
                measure(key, str(candidate))
        return f"The commons knows {asked} of {len(workloads)} workloads; they are measured first."
