"""The dock of the device."""

from __future__ import annotations

from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.ui.device.dock import MEASURE, DevicePanel
from nnjit_studio.ui.dock.feature import INSPECT, Action, Feature
from nnjit_studio.ui.dock.host import Host


def _make(host: Host) -> DevicePanel:
    panel = DevicePanel(host.session, host.theme)

    def told(job: str, result: object) -> None:
        if not isinstance(result, MeasuredDevice):
            return
        if result.steady:
            host.message.say("The device was measured: tuning builds on it from now on.", "good")
        else:
            host.message.say(
                "The machine was too busy to tell registers and caches: close other programs and "
                "measure again. Until then the earlier values are used."
            )

    host.session.done.connect(told)
    host.session.read_device()
    return panel


DEVICE: Feature[DevicePanel] = Feature(
    "device", "Device", _make,
    actions=(
        Action(
            "device", "&Tune", "&Measure this device", "", "idle",
            "Registers, caches and primitives", "nnjit doctor --microbench",
        ),
    ),
    job=MEASURE,
    layouts=(INSPECT,),
)  # fmt: skip
