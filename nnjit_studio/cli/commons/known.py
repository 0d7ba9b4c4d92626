"""What a server of the commons knows for this device, measured first in a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.commons.client.home import home_of, parts_of
from nnjit_studio.commons.client.web import Believed, ask
from nnjit_studio.records import DeviceProfile

MEASURED = 2
"""Of a workload's believed settings: the leader and the next are always measured here."""

Measure = Callable[[str, str, float | None], bool]
"""Has a session measure settings of a workload, with the speed-up that ends its search."""


@dataclass(frozen=True)
class Known:
    """What is believed by kind, dims, dtype and layout, the leader first."""

    kernels: Mapping[tuple[str, str, str, str], Sequence[Believed]]

    @classmethod
    def ask(cls, server: str, device: DeviceProfile) -> Known:
        """Ask a server for this kind of device.

        Raises
        ------
        UserError
            When the device is one that the commons has no words for, or the server none for us.
        """
        return cls(ask(server.rstrip("/"), home_of(device)))

    def request(self, workloads: Sequence[str], measure: Measure) -> str:
        """Have a session measure what is known of its workloads; says of how many something is.

        A workload whose leader is as fast here as the crowd says is searched no further.
        """
        asked = 0
        for key in workloads:
            believed = self.kernels.get(parts_of(key), ())[:MEASURED]
            asked += bool(believed)
            for each in believed:
                measure(key, str(each.candidate), each.enough)
        return f"The commons knows {asked} of {len(workloads)} workloads; they are measured first."
