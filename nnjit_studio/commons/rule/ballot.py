"""One device's voice on one kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ballot:
    """The newest finding of one device for one key.

    Attributes
    ----------
    voter
        The device's key at this server; one ballot each.
    source
        Where it came from: a block of addresses as a keyed hash. Devices of one source may be one
        person, so that a source has one voice, however many devices it brings.
    device
        The exact kind of device.
    ranked
        Settings, the fastest first, each with its speed-up over the device's own default.
        Ratios of one device, measured in turns, can be compared where times cannot.
    """

    voter: str
    source: str
    device: str
    ranked: tuple[tuple[str, float], ...]
