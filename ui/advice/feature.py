"""The dock of advice."""

from __future__ import annotations

from nnjit_studio.ui.advice.dock import JOB, AdvicePanel
from nnjit_studio.ui.dock.feature import COMPARE, INSPECT, STAGE, TUNE, Action, Feature
from nnjit_studio.ui.dock.host import Host


def _measure(host: Host) -> None:
    host.message.hide()
    panel = ADVICE.show(host)
    panel.view.setFocus()  # the button that was pressed is grey now: the next one would have it
    panel.measure()


ADVICE: Feature[AdvicePanel] = Feature(
    "advice", "Make it faster", AdvicePanel,
    actions=(
        Action(
            JOB, "&Tune", "Make it &faster", "Ctrl+F7", "model",
            "Measure threads, smaller weights and other forms of the model, and rank them",
            "nnjit advise MODEL", place=2, do=_measure,
        ),
    ),
    area=STAGE, layouts=(TUNE, INSPECT, COMPARE),
)  # fmt: skip
