"""The table of docks: one row each, in the order of their tabs. The window reads nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.ui.commands.actions import ActionSpec, ordered
from nnjit_studio.ui.device.feature import DEVICE
from nnjit_studio.ui.diff.feature import BACKENDS, DIFF
from nnjit_studio.ui.dock.feature import Feature
from nnjit_studio.ui.generation.feature import TEXT
from nnjit_studio.ui.graph.feature import GRAPH
from nnjit_studio.ui.kernel.feature import KERNEL
from nnjit_studio.ui.log.feature import LOG
from nnjit_studio.ui.profile.feature import PROFILE
from nnjit_studio.ui.records.feature import DATABASE
from nnjit_studio.ui.tuning.feature import LATENCY, ROUNDS, SPACE, TUNING
from nnjit_studio.ui.widgets.panel import Panel
from nnjit_studio.ui.window.own_actions import OWN_ACTIONS

FEATURES: tuple[Feature[Panel], ...] = (
    GRAPH,
    TUNING,
    ROUNDS,
    LATENCY,
    SPACE,
    KERNEL,
    PROFILE,
    DIFF,
    BACKENDS,
    TEXT,
    DATABASE,
    DEVICE,
    LOG,
)


def actions_of(features: Sequence[Feature[Panel]]) -> tuple[ActionSpec, ...]:
    """Every action of a window with these docks, in the order of the menus."""
    return ordered((*OWN_ACTIONS, *(action for feature in features for action in feature.actions)))


ACTIONS = actions_of(FEATURES)
