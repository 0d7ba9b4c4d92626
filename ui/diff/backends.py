"""Wasm and WebGPU compared: which is faster and why, in words, and every step on both."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel

from nnjit_studio.analysis.backends import BackendComparison, StepPair, why
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.job_table import JobTable
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.panel import ground
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


class BackendsPanel(JobTable):
    """The sentences above, the steps below, those with the largest difference first."""

    result: BackendComparison | None

    def __init__(self, host: Host) -> None:
        super().__init__(host, "Wasm or WebGPU", COLUMNS, "faster", EMPTY)
        self.answer = ground(QLabel(wordWrap=True))
        self.answer.setContentsMargins(10, 2, 10, 6)
        self.answer.hide()
        self.box.insertWidget(1, self.answer)

    def fill(self) -> None:
        steps = self.result.steps if self.result else ()
        ranked = sorted(steps, key=lambda s: -abs(s.wasm_ms - s.webgpu_ms))
        self.model.set_rows(ranked, keep=False)
        reasons = why(self.result)[1:] if self.result else []
        self.answer.setText(" ".join(reasons))
        self.answer.setVisible(bool(reasons))

    def sentence(self) -> str:
        assert self.result is not None
        return why(self.result)[0]
