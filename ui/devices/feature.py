"""The dock of devices of the house."""

from __future__ import annotations

from nnjit_studio.ui.dock.feature import STAGE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.widgets.panel import Panel


def _make(host: Host) -> Panel:
    from nnjit_studio.ui.devices.dock import DevicesPanel
    from nnjit_studio.ui.devices.port import Port
    from nnjit_studio.workbench.house import House

    port = Port(House(host.session.workbench.database), host)
    port.told.connect(lambda sentence: host.message.say(sentence, "good"))
    port.problem.connect(host.tell)
    host.background.append(port)
    return DevicesPanel(host, port)


DEVICES: Feature[Panel] = Feature(
    "devices", "Devices", _make, STAGE,
    actions=(
        Action(
            "devices", "&Tune", "De&vices of the house…", tip="Phones and computers that join",
            command="nnjit devices open",
        ),
    ),
)  # fmt: skip
