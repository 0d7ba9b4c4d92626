"""The numerical diff: tensors of the page against native ONNX Runtime, the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt

from nnjit_studio.analysis.diff import Diff, TensorDiff, merged, summary
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.job_table import JobTable
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column
from nnjit_studio.workbench import jobs

EMPTY = (
    "Nothing compared yet: F7 compares every tensor with native ONNX Runtime, "
    "Shift+F7 those of the node that is selected in the graph."
)
FIRST_BAD, BAD, WITHIN, NOT_COMPARED = "first bad step", "bad", "within", "not compared"
INHERITED = "as its inputs"
GLYPHS = {FIRST_BAD: "▶", BAD: "✗", WITHIN: "✓", INHERITED: "≈", NOT_COMPARED: "·"}
TONES = {FIRST_BAD: "bad", BAD: "bad", WITHIN: "good", INHERITED: "good", NOT_COMPARED: "muted"}


@dataclass(frozen=True)
class Row:
    """A tensor with its figures, or why it has none."""

    state: str
    tensor: str
    node: str
    found: TensorDiff | None = None
    why: str = ""


def rows_of(diff: Diff, whole: bool) -> Iterator[Row]:
    """Worst first, then what could not be compared; the first bad step is known of a whole diff."""
    bad = {t.tensor for t in diff.bad}
    first = diff.bad[0].position if bad and whole else None
    for t in diff.tensors:
        state = WITHIN if t.tensor not in bad else FIRST_BAD if t.position == first else BAD
        state = INHERITED if t.inherited else state
        there = f"element {list(t.worst)} is {t.got:.6g}, not {t.expected:.6g}"
        yield Row(state, t.tensor, t.node, t, there if t.max_abs else "equal")
    for m in diff.missing:
        yield Row(NOT_COMPARED, m.tensor, m.node, why=m.why)


def _of(name: str) -> Any:
    return lambda row: None if row.found is None else getattr(row.found, name)


def _shape(row: Row) -> str:
    return "" if row.found is None else f"{text.shape(row.found.shape)} {row.found.dtype}"


def _counts(name: str) -> Any:
    def value(row: Row) -> str | None:
        counts = (0, 0) if row.found is None else getattr(row.found, name)
        return "{}/{}".format(*counts) if any(counts) else None

    return value


def _or_dash(value: str | None) -> str:
    return value or text.NONE


def _error(value: float | None) -> str:
    return text.NONE if value is None else f"{value:.2e}"


COLUMNS = (
    Column(
        "state", lambda r: r.state, lambda s: f"{GLYPHS[s]} {s}", width=108,
        tone=lambda r: TONES[r.state],
        tip="bad: beyond the tolerance, 0.001 of the scale; as its inputs: beyond it, but ONNX "
        "Runtime computes the same from the inputs that the page had",
    ),
    Column("tensor", lambda r: r.tensor, width=290, middle=True),
    Column("step", lambda r: r.node, width=240, middle=True),
    Column("order", _of("position"), lambda v: text.NONE if v is None else str(v), True, width=50,
           tip="of the step, from 0"),
    Column("shape", _shape, _or_dash, width=120),
    Column("max relative", _of("max_rel"), _error, True,
           "largest error over the reference's largest magnitude", 92),
    Column("max absolute", _of("max_abs"), _error, True, width=98),
    Column("cosine", _of("cosine"), lambda v: text.fixed(v, 9), True,
           "of the angle between both, where both are finite", 104),
    Column("NaN", _counts("nans"), _or_dash, True, "in the page / in ONNX Runtime", 56),
    Column("Inf", _counts("infs"), _or_dash, True, "in the page / in ONNX Runtime", 56),
    Column("where the error is largest, or why there is none", lambda r: r.why, width=320),
)  # fmt: skip


class DiffPanel(JobTable):
    """The whole model's tensors, or those of nodes as they are asked for."""

    result: Diff | None

    def __init__(self, host: Host) -> None:
        self._asked = ""
        self._whole = False
        super().__init__(host, "Numerical diff", COLUMNS, "diff", EMPTY)
        self.view.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        self.picked.connect(lambda row: host.node_wanted.emit(row.node))
        self.show_last()

    def compare(self, node: str = "") -> bool:
        """Compare one step's tensors, or all without a name; False when another job is running."""
        phase = f"Comparing {node or 'all tensors'} with ONNX Runtime"
        started = self._session.run(
            Job("diff", phase, lambda bench, tell: bench.run(jobs.diff, node, tell))
        )
        if started:
            self._asked = node
        return started

    def show_result(self, result: Diff | None) -> None:
        # A node is added to what was compared before, unless kernels may have changed since.
        before = self.result if self._asked and not self.outdated else None
        self._whole = not self._asked or (before is not None and self._whole)
        super().show_result(merged(before, result) if before and result else result)
        if self._asked:
            self.select_row(lambda row: row.node == self._asked)
        else:
            self.view.scrollToTop()

    def fill(self) -> None:
        rows = list(rows_of(self.result, self._whole)) if self.result else []
        self.model.set_rows(rows, keep=False)

    def sentence(self) -> str:
        assert self.result is not None
        if self._asked:
            found = [row for row in self.model.rows if row.node == self._asked]
            return "  ·  ".join(f"{row.tensor}: {_in_words(row, self.result)}" for row in found)
        missing = len(self.result.missing)
        return summary(self.result) + (f" {missing} are not compared." if missing else "")


def _in_words(row: Row, diff: Diff) -> str:
    if row.found is None:
        return row.why
    side = "within" if row.state == WITHIN else "beyond"
    return (
        f"largest error {row.found.max_rel:.2e} of its scale, {side} {diff.tolerance:g}; {row.why}"
    )
