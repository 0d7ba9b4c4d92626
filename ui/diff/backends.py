"""Wasm and WebGPU compared: which is faster and why, in words, and every step on both."""

from __future__ import annotations

from nnjit_studio.analysis.backends import BackendComparison, StepPair, why
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.job_table import AnsweringTable
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column

EMPTY = "Nothing compared yet: F8 runs the open model in Wasm and on WebGPU, and says why."


def _ratio(step: StepPair) -> float | None:
    return step.wasm_ms / step.webgpu_ms if step.webgpu_ms else None


def _faster(step: StepPair) -> str:
    return "WebGPU" if step.webgpu_ms < step.wasm_ms else "Wasm"


COLUMNS = (
    Column("step", lambda s: s.node, width=230, middle=True),
    Column(
        "workload",
        lambda s: s.workload,
        text.workload,
        width=260,
        hint=lambda s: text.workload_tip(s.workload),
    ),
    Column("Wasm ms", lambda s: s.wasm_ms, lambda v: text.fixed(v, 3), True, width=80),
    Column("WebGPU ms", lambda s: s.webgpu_ms, lambda v: text.fixed(v, 3), True, width=90),
    Column("ratio", _ratio, lambda v: text.fixed(v, 2), True, "Wasm's time by WebGPU's", 66),
    Column("faster", _faster, width=80),
)


class BackendsPanel(AnsweringTable):
    """The sentences above, the steps below, those with the largest difference first."""

    result: BackendComparison | None

    def __init__(self, host: Host) -> None:
        super().__init__(host, "Wasm or WebGPU", COLUMNS, "faster", EMPTY)
        self.picked.connect(lambda row: host.node_wanted.emit(row.node))
        self.show_last()

    def fill(self) -> None:
        steps = self.result.steps if self.result else ()
        self.fill_with(sorted(steps, key=lambda s: -abs(s.wasm_ms - s.webgpu_ms)))

    def words(self) -> list[str]:
        assert self.result is not None
        return why(self.result)
