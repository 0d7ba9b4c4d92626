"""The docks of a tuning session: its state, its plots, and the lite space."""

from __future__ import annotations

from nnjit_studio.ui.dock.feature import COMPARE, PLOTS, RIGHT, TUNE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.tuning.dock import TuningPanel
from nnjit_studio.ui.tuning.latency import LatencyPanel
from nnjit_studio.ui.tuning.plan import JOB as PLAN_JOB
from nnjit_studio.ui.tuning.plan import PlanPanel
from nnjit_studio.ui.tuning.rounds import RoundsPanel
from nnjit_studio.ui.tuning.space import SpacePanel


def _make_space(host: Host) -> SpacePanel:
    panel = SpacePanel(host.session, host.theme)
    host.kernels.add(panel, host.actions["kernel"])
    return panel


TUNING: Feature[TuningPanel] = Feature(
    "tuning", "Tuning", lambda host: TuningPanel(host.session, host.actions), RIGHT,
    layouts=(TUNE,),
)  # fmt: skip
ROUNDS: Feature[RoundsPanel] = Feature(
    "rounds", "GFLOP/s per round", lambda host: RoundsPanel(host.session, host.theme), PLOTS,
    layouts=(TUNE,),
)  # fmt: skip
LATENCY: Feature[LatencyPanel] = Feature(
    "latency", "Model latency", lambda host: LatencyPanel(host.session, host.theme), PLOTS,
    layouts=(TUNE, COMPARE),
)  # fmt: skip
SPACE: Feature[SpacePanel] = Feature(
    "space", "Lite space", _make_space,
    actions=(
        Action(
            "own", "&Tune", "&Measure settings of your own", "Ctrl+K",
            tip="Type settings, measure them", do=lambda host: SPACE.show(host).own.begin(),
        ),
    ),
    layouts=(TUNE,),
)  # fmt: skip
PLAN: Feature[PlanPanel] = Feature(
    "plan", "Plan", PlanPanel,
    actions=(
        Action(
            PLAN_JOB, "&Tune", "Tune the p&lan", "", "model",
            "Import the model in other ways, and measure each in the running model, "
            "within the time of “tune for”",
            "nnjit tune MODEL --plan", place=2,
            do=lambda host: PLAN.show(host).begin(TUNING.panel(host).budget_s),
        ),
    ),
    layouts=(TUNE,),
)  # fmt: skip
