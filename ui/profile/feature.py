"""The dock of the profile."""

from __future__ import annotations

from pathlib import Path

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.feature import COMPARE, INSPECT, STAGE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.profile.dock import ProfilePanel, profile_job
from nnjit_studio.ui.profile.perfetto import TraceSaved


def _make(host: Host) -> ProfilePanel:
    panel = ProfilePanel(host)

    def save_trace(path: Path) -> None:
        panel.save_trace(path)
        dialogs.show(TraceSaved(host.window, path))

    host.saver.offer(panel.trace_button, "Save trace", "-trace.json", save_trace)
    host.saver.offer(panel.save_button, "Save profile", "-profile.json", panel.save_profile)
    panel.picked.connect(lambda row: host.node_wanted.emit(row.node))
    panel.show_last()
    return panel


PROFILE: Feature[ProfilePanel] = Feature(
    "profile", "Profile", _make,
    actions=(
        Action(
            "profile", "&Inspect", "&Profile", "F6", "model",
            "Time, rates and memory of every step", "nnjit profile MODEL",
        ),
    ),
    job=profile_job(),
    area=STAGE, layouts=(INSPECT, COMPARE),
)  # fmt: skip
