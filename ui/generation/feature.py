"""The dock that makes text with a decoder."""

from __future__ import annotations

from nnjit_studio.ui.dock.feature import INSPECT, STAGE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.generation.dock import TextPanel


def _make(host: Host) -> TextPanel:
    return TextPanel(host.session, host.theme, host.actions["stop"])


TEXT: Feature[TextPanel] = Feature(
    "text", "Text", _make,
    actions=(
        Action(
            "text", "&Inspect", "Make te&xt", "F9", tip="Continue a prompt",
            command="nnjit generate MODEL --ids 1,2,3", place=1,
            do=lambda host: TEXT.show(host).take_keys(),
        ),
    ),
    area=STAGE, layouts=(INSPECT,),
)  # fmt: skip
