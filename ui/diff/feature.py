"""The docks Numerical diff, Wasm or WebGPU, and Browsers."""

from __future__ import annotations

from nnjit_studio.ui.diff.backends import BackendsPanel
from nnjit_studio.ui.diff.browsers import BrowsersPanel
from nnjit_studio.ui.diff.dock import DiffPanel
from nnjit_studio.ui.dock.feature import COMPARE, INSPECT, STAGE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.installed_browsers import compare_installed


def _compare(host: Host, node: str = "") -> None:
    host.message.hide()
    DIFF.show(host).compare(node)


def _compare_node(host: Host) -> None:
    node = host.session.state.node
    if node:
        _compare(host, node)
    else:
        host.message.say("Select a node in the graph first: click it, or walk by arrow keys.")


DIFF: Feature[DiffPanel] = Feature(
    "diff", "Numerical diff", DiffPanel,
    actions=(
        Action(
            "diff", "&Inspect", "&Numerical diff", "F7", "model",
            "Every tensor of the model against native ONNX Runtime, the worst first",
            "nnjit diff MODEL", do=_compare,
        ),
        Action(
            "diff_node", "&Inspect", "Numerical diff of &this tensor", "Shift+F7", "model",
            "The result of the node that is selected in the graph, against native ONNX Runtime",
            do=_compare_node,
        ),
    ),
    area=STAGE, layouts=(INSPECT, COMPARE),
)  # fmt: skip
BACKENDS: Feature[BackendsPanel] = Feature(
    "faster", "Wasm or WebGPU", BackendsPanel,
    actions=(
        Action(
            "faster", "&Inspect", "&Wasm or WebGPU?", "F8", "model",
            "Which is faster here, whole and by step, and why", "nnjit faster MODEL", place=1,
        ),
    ),
    job=Job(
        "faster",
        "Comparing Wasm with WebGPU",
        lambda bench, tell: bench.run(jobs.compare_backends, tell),
    ),
    layouts=(COMPARE,),
)  # fmt: skip
BROWSERS: Feature[BrowsersPanel] = Feature(
    "browsers", "Browsers", BrowsersPanel,
    actions=(
        Action(
            "browsers", "&Tune", "Compare the &browsers here", "", "model",
            "Tune in every browser of this machine, in turns, and show where they differ",
            "nnjit devices compare MODEL",
        ),
    ),
    job=Job("browsers", "Comparing browsers", lambda bench, tell: compare_installed(bench, tell)),
    area=STAGE,
)  # fmt: skip
