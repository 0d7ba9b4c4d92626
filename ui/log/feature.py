"""The dock of the program's log."""

from __future__ import annotations

from nnjit_studio.ui.dock.feature import INSPECT, TUNE, Feature
from nnjit_studio.ui.log.dock import LogPanel

LOG: Feature[LogPanel] = Feature(
    "log", "Log", lambda host: LogPanel(host.log_lines, host.theme), layouts=(TUNE, INSPECT)
)
