"""What a device tells of itself, and what it is told."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnjit_studio.errors import UserError

MAX_STATE_BYTES = 256
_KEYS = {"hidden", "battery", "charging", "cores", "memory_gb"}


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
        document = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise wrong from e
    if not isinstance(document, dict) or document.keys() != _KEYS:
        raise wrong
    hidden, battery, charging = (document[n] for n in ("hidden", "battery", "charging"))
    if not isinstance(hidden, bool) or not (charging is None or isinstance(charging, bool)):
        raise wrong
    cores, memory = document["cores"], document["memory_gb"]
    if not all(
        _within(value, low, high)
        for value, low, high in ((battery, 0, 1), (cores, 1, 1024), (memory, 0.25, 1024))
    ):
        raise wrong
    return DeviceState(
        hidden, None if battery is None else float(battery), charging,
        None if cores is None else int(cores), None if memory is None else float(memory),
    )  # fmt: skip


def _within(value: object, low: float, high: float) -> bool:
    """Whether it is a number between both, or nothing."""
    if value is None:
        return True
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and low <= value <= high  # type: ignore[arg-type, operator]
