"""Which is faster here, Wasm or WebGPU: the answer in words, and every step on both."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel

from nnjit_studio.analysis.backends import BackendComparison, StepPair, why
from nnjit_studio.ui.state.job_table import JobTable
from nnjit_studio.ui.state.session import Session
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column
from nnjit_studio.ui.widgets.theme import Theme, panel

EMPTY = "Nothing compared yet: F8 runs the open model in Wasm and on WebGPU, and says why."


def _ratio(step: StepPair) -> float | None:
    return step.wasm_ms / step.webgpu_ms if step.webgpu_ms else None


def _faster(step: StepPair) -> str:
    return "WebGPU" if step.webgpu_ms < step.wasm_ms else "Wasm"


COLUMNS = (
    Column("step", lambda s: s.node, width=230, middle=True),
    Column("workload", lambda s: s.workload, text.short_key, width=260, middle=True),
    Column("Wasm ms", lambda s: s.wasm_ms, lambda v: text.fixed(v, 3), True, width=80),
    Column("WebGPU ms", lambda s: s.webgpu_ms, lambda v: text.fixed(v, 3), True, width=90),
    Column("ratio", _ratio, lambda v: text.fixed(v, 2), True, "Wasm's time by WebGPU's", 66),
    Column("faster", _faster, width=80),
)


class FasterPanel(JobTable):
    """The sentences above, the steps below, those with the largest difference first."""

    result: BackendComparison | None

    def __init__(self, session: Session, theme: Theme, actions: Mapping[str, QAction]) -> None:
        super().__init__(session, "Wasm or WebGPU", COLUMNS, theme, actions, "faster", EMPTY)
        self.answer = QLabel(wordWrap=True)
        panel(self.answer)
        self.answer.setContentsMargins(10, 2, 10, 6)
        self.answer.hide()
        layout = self.layout()
        assert layout is not None
        layout.insertWidget(1, self.answer)  # type: ignore[attr-defined]

    def fill(self) -> None:
        steps = self.result.steps if self.result else ()
        ranked = sorted(steps, key=lambda s: -abs(s.wasm_ms - s.webgpu_ms))
        self.model.set_rows(ranked, keep=False)
        told = why(self.result)[1:] if self.result else []
        self.answer.setText(" ".join(told))
        self.answer.setVisible(bool(told))

    def sentence(self) -> str:
        assert self.result is not None
        return why(self.result)[0]
