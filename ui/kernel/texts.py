"""A kernel's texts: three forms side by side, and one after each pass."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import (
    QCheckBox,
    QSplitter,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from nnjit_studio.analysis.kernel.changes import ADDED, REMOVED, SAME, as_text
from nnjit_studio.analysis.kernel.kernel import KernelInspection, PassStep
from nnjit_studio.analysis.kernel.line_map import Partners
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.code_view import CodeView
from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.panel import Panel, named, push_button, splitter, vbox
from nnjit_studio.ui.widgets.tables import RAW_ROLE, Column, Index, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

CONTEXT = 3
PROGRAM, LOOPS, CODE = "program", "loops", "code"
TONES = {ADDED: "good", REMOVED: "bad"}


class SideBySide(Panel):
    """Tensor IR, scheduled loops and code; the lines that belong to the cursor's are marked."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.views = {
            PROGRAM: CodeView(
                "Tensor IR", theme, "the text that every candidate starts from", True
            ),
            LOOPS: CodeView("Scheduled loops", theme, "after the pass schedule", True),
            CODE: CodeView("Code", theme, "the last text before the bytes", True),
        }
        self._maps: dict[tuple[str, str], Partners] = {}
        for name, view in self.views.items():
            view.lines.line_chosen.connect(lambda line, name=name: self.choose(name, line))
        self.granularity = quiet(ElidedLabel())
        self.granularity.setContentsMargins(8, 2, 8, 2)
        views = zip(self.views.values(), (300, 380, 460), strict=True)
        texts = splitter(Qt.Orientation.Horizontal, *views)
        vbox((texts, 1), self.granularity, on=self)

    def show_kernel(self, kernel: KernelInspection) -> None:
        texts = {PROGRAM: kernel.program, LOOPS: kernel.loops, CODE: kernel.code}
        for name, view in self.views.items():
            view.lines.show_text(texts[name])
            view.note.setText(f"{texts[name].count(chr(10))} lines")
        self.views[CODE].title.setText("WGSL" if kernel.on_gpu else "Wasm")
        self.views[LOOPS].setVisible(bool(kernel.loops))
        maps = {
            (PROGRAM, LOOPS): kernel.to_loops,
            (PROGRAM, CODE): kernel.to_code,
            (LOOPS, CODE): kernel.loops_to_code,
        }
        self._maps = {}
        for (a, b), found in maps.items():
            if found is not None:
                self._maps[a, b], self._maps[b, a] = found.forward, found.back
        named_maps = {
            "Tensor IR and the others": kernel.to_code,
            "loops and Wasm": kernel.loops_to_code,
        }
        words = [f"{names} {found.granularity}" for names, found in named_maps.items() if found]
        self.granularity.setText(
            "Marked lines correspond. " + "; ".join(words) + "." if words else kernel.error
        )

    def clear(self) -> None:
        """Show nothing: the texts were of another model."""
        self._maps = {}
        for view in self.views.values():
            view.lines.show_text("")
            view.note.setText("")
        self.granularity.setText("")

    def choose(self, name: str, line: int) -> None:
        """Mark a line of one text, and what belongs to it in the others."""
        self.views[name].lines.mark({line: "accent"})
        for other, view in self.views.items():
            partners = self._maps.get((name, other), ())
            if other != name:
                mine = partners[line] if line < len(partners) else frozenset()
                view.lines.mark(dict.fromkeys(mine, "partner"))
                view.lines.reveal(mine)

    def set_theme(self, theme: Theme) -> None:
        for view in self.views.values():
            view.lines.set_theme(theme)


COLUMNS = (
    Column("pass", lambda p: p.name, width=170),
    Column(
        "ms", lambda p: p.ms, lambda v: text.fixed(v, 3), True,
        "median of as many compilations as there are passes, in the compile process", 92,
    ),
    Column(
        "+", lambda p: p.added if p.lines is not None else None,
        lambda v: text.NONE if v is None else str(v), True,
        "lines that are new after it; a dash where the text has another form than before", 44,
    ),
    Column(
        "-", lambda p: p.removed if p.lines is not None else None,
        lambda v: text.NONE if v is None else str(v), True, "lines that are gone after it", 44,
    ),
    Column("text is", lambda p: p.form, lambda v: v or text.NONE, width=80),
)  # fmt: skip
MS = [column.title for column in COLUMNS].index("ms")


class ShareBars(QStyledItemDelegate):
    """A bar behind the number, as long as its share of the largest in the column."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.theme = theme

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        model = index.model()
        values = [model.index(i, index.column()).data(RAW_ROLE) for i in range(model.rowCount())]
        top = max(values, default=0.0)
        if top > 0:
            room = QRectF(option.rect).adjusted(2, 3, -2, -3)
            room.setWidth(room.width() * index.data(RAW_ROLE) / top)
            colour = QColor(self.theme.accent)
            colour.setAlphaF(0.3)
            painter.fillRect(room, colour)
        super().paint(painter, option, index)


class PassView(QSplitter):
    """The passes with their times, and the text after the one that is selected."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(Qt.Orientation.Horizontal, childrenCollapsible=False)
        self.table = TablePanel("Passes", COLUMNS, theme)
        self.table.filter.hide()
        self.bars = ShareBars(theme, self.table.view)
        self.table.view.setItemDelegateForColumn(MS, self.bars)
        self.table.picked.connect(self._show)
        self.view = CodeView("After the pass", theme)
        self.only = named(
            QCheckBox("Changes only"), "Changes only", "Hide the lines that the pass did not change"
        )
        self.only.toggled.connect(lambda: self._show(self._step))
        self.next_button = push_button(
            "Next change",
            "Next change",
            "Go to the next line that the pass changed",
            self.next_change,
        )
        for place, widget in enumerate((self.only, self.next_button), 2):
            self.view.bar.insertWidget(place, widget)
        self._step: PassStep | None = None
        self.addWidget(self.table)
        self.addWidget(self.view)
        self.setStretchFactor(1, 1)
        self.setSizes([440, 760])

    def show_kernel(self, kernel: KernelInspection) -> None:
        before = self._step.name if self._step else ""
        self.table.model.set_rows(kernel.passes, keep=bool(self.table.model.rows))
        names = [p.name for p in kernel.passes]
        if not names:
            self._step = None
            self.view.lines.show_text("")
            self.view.note.setText(kernel.error)
        elif before in names:
            self._show(kernel.passes[names.index(before)])
        else:
            self.table.view.selectRow(next(i for i, p in enumerate(kernel.passes) if p.text))

    def clear(self) -> None:
        """Show nothing: the passes were of another model."""
        self._step = None
        self.table.model.set_rows([])
        self.view.title.setText("After the pass")
        self.view.note.setText("")
        self.view.lines.show_text("")

    def next_change(self) -> None:
        """Put the cursor on the next changed place, from the top again behind the last."""
        lines, here = self.view.lines, self.view.lines.line
        starts = sorted(i for i in lines.marks if i - 1 not in lines.marks)
        if starts:
            lines.go_to(next((i for i in starts if i > here), starts[0]))

    def _show(self, step: PassStep | None) -> None:
        if step is None:
            return
        self._step = step
        lines = step.lines or ()
        changed = any(line.mark != SAME for line in lines)
        self.only.setEnabled(changed)
        self.next_button.setEnabled(changed)
        if not changed:
            shown = step.text
        else:
            shown = as_text(lines, CONTEXT if self.only.isChecked() else None)
        self.view.title.setText(f"After {step.name}")
        self.view.note.setText(_what_changed(step, changed))
        self.view.lines.show_text(shown)
        marks = enumerate(shown.splitlines()) if changed else ()
        self.view.lines.mark({i: TONES[line[0]] for i, line in marks if line[:1] in TONES})

    def set_theme(self, theme: Theme) -> None:
        self.bars.theme = theme
        self.table.model.set_theme(theme)
        self.view.lines.set_theme(theme)


def _what_changed(step: PassStep, changed: bool) -> str:
    if changed:
        return f"+{step.added} new lines, -{step.removed} gone"
    if step.lines is not None:
        return "This pass changed nothing here."
    if not step.text:
        return "There is no text before the next pass."
    return f"The text is {step.form} from here on: nothing before has this form."
