"""The dock of the kernel inspector, and the ways into it: a node, a row, a record, a key."""

from __future__ import annotations

from functools import partial

from nnjit_studio.ui.dock.feature import INSPECT, STAGE, TUNE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.kernel.dock import KernelPanel
from nnjit_studio.ui.widgets import text


def _make(host: Host) -> KernelPanel:
    panel = KernelPanel(host.session, host.theme, host.history)
    host.session.read_records()
    return panel


def _begin(host: Host) -> None:
    host.kernels.wanted.connect(partial(_look, host))


def _look(host: Host, workload: str, settings: str) -> None:
    state = host.session.state
    if state.model is None:
        host.message.say("No model is open: open one first (Ctrl+O), then inspect a kernel.")
    elif workload and workload not in state.workloads:
        host.message.say(
            f"The open model has no {text.workload(workload)}: to compile the kernel of this "
            "record, open the model that it belongs to."
        )
    else:
        if workload:
            host.session.select(workload)
        KERNEL.show(host).look(settings)


KERNEL: Feature[KernelPanel] = Feature(
    "kernel", "Kernel", _make,
    actions=(
        Action(
            "kernel", "&Inspect", "Inspect &kernel", "F4",
            tip="Texts after each pass, samples, settings: of the selected row, or of what runs",
            place=1, do=lambda host: host.kernels.want(),
        ),
    ),
    area=STAGE, layouts=(TUNE, INSPECT),
    begin=_begin,
)  # fmt: skip
