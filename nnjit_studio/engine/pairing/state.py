"""What a device tells of itself, and what it is told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from nnjit_studio.errors import UserError

MAX_STATE_BYTES = 256


@dataclass(frozen=True)
class DeviceState:
    """As a browser tells it; what it hides is None."""

    hidden: bool = False
    """The screen is off, or another page is in front: nothing is measured meanwhile."""
    battery: float | None = None
    """0 to 1."""
    charging: bool | None = None
    cores: int | None = None
    memory_gb: float | None = None
    """2^30 bytes, rounded by the browser, and 8 for all that is more."""


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    hidden: bool
    battery: Annotated[float, msgspec.Meta(ge=0, le=1)] | None
    charging: bool | None
    cores: Annotated[float, msgspec.Meta(ge=1, le=1024)] | None
    memory_gb: Annotated[float, msgspec.Meta(ge=0.25, le=1024)] | None


@dataclass(frozen=True)
class DeviceRow:
    """A device for those who watch."""

    id: str
    name: str
    joined: str
    here: bool = False
    """Its page is open and connected."""
    works: bool = False
    """It runs kernels now."""
    address: str = ""
    state: DeviceState = DeviceState()


@dataclass(frozen=True)
class Told:
    """What the device's page shows of the work on it."""

    model: str = ""
    kernel: str = ""
    gflops: float = 0.0
    """The best of this kernel so far, 10^9 operations a second."""
    rate: float | None = None
    """Of the sentinel kernel: a share of the usual one, 1 while the device is as cool as at first;
    None before it is known."""
    warning: str = ""
    left_s: float | None = None
    done: bool = False

    def after(self, event: Mapping[str, Any]) -> Told:
        """With what one of a session's events (``tuner.events``, as JSON) says."""
        now = dict(self.__dict__)
        match event.get("event"):
            case "started":
                now = {**Told(model=str(event["model"])).__dict__}
            case "round":
                kernel = str(event["workload"]).split("#")[0]
                now.update(kernel=kernel, gflops=event["best_gflops"], left_s=event["left_s"])
            case "drift":
                now.update(rate=event["rate"], warning=str(event["what"]))
            case "machine":
                now.update(rate=event["rate"], warning=str(event["warning"]))
            case "finished" | "failed":
                return self.ended()
        return Told(**now)

    def ended(self) -> Told:
        """With no more to come of the work, if there was any."""
        return dataclasses.replace(self, done=bool(self.model), left_s=None)

    def to_json(self) -> str:
        return json.dumps(self.__dict__, allow_nan=False)


def read_state(text: object) -> DeviceState:
    """A message of the device's page.

    Raises
    ------
    UserError
        When it is anything else.
    """
    wrong = UserError("The device told its state in another form.", "Reload its page.")
    if not isinstance(text, str) or len(text) > MAX_STATE_BYTES:
        raise wrong
    try:
        told = msgspec.json.decode(text, type=_Message)
    except (ValueError, msgspec.DecodeError, RecursionError) as e:
        raise wrong from e
    cores = None if told.cores is None else int(told.cores)
    return DeviceState(told.hidden, told.battery, told.charging, cores, told.memory_gb)
