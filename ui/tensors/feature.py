"""The dock of tensors."""

from __future__ import annotations

from nnjit_studio.ui.dock.feature import INSPECT, STAGE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.tensors.dock import JOB, TensorPanel


def _fetch(host: Host) -> None:
    host.message.hide()
    panel = TENSORS.show(host)
    panel.refresh(frozenset())
    panel.fetch()


TENSORS: Feature[TensorPanel] = Feature(
    "tensors", "Tensors", TensorPanel,
    actions=(
        Action(
            JOB, "&Inspect", "&Values of this tensor", "Ctrl+T", "model",
            "Values of what the selected node computes, of a run of the open model", do=_fetch,
        ),
    ),
    area=STAGE, layouts=(INSPECT,),
)  # fmt: skip
