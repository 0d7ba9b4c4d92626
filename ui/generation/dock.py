"""Text of a decoder: a prompt of token ids in, tokens as they are made, and how fast."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QTextCursor
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio.errors import UserError
from nnjit_studio.generation.prompts import why_no_decoder
from nnjit_studio.generation.session import CANCELLED, TextBegun
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.generation.form import TextForm
from nnjit_studio.ui.generation.plot import TextPlot
from nnjit_studio.ui.state.session import Problem, Session
from nnjit_studio.ui.state.text_state import RECENT_MS, TextState
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.theme import Theme, named, panel

EMPTY = "Type a prompt of token ids, then start."
ENDS = {
    "length": "all tokens made",
    "stop": "the model ended it",
    "full": "the cache is full",
    CANCELLED: "stopped",
}
JOBS = ("text", "check_text")


class TextPanel(QWidget):
    """Fields on the left, tokens in the middle, milliseconds on the right."""

    def __init__(self, session: Session, theme: Theme, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        panel(self)
        self._session, self._stop = session, actions["stop"]
        self._shown_text: TextBegun | None = None
        self._shown = 0
        self.form = TextForm()
        self.plot = TextPlot(session, theme)
        self.button = named(QPushButton("Start"), "Make text", "Go on with the prompt (Ctrl+Enter)")
        self.button.setShortcut("Ctrl+Return")
        self.button.clicked.connect(self.start_or_stop)
        self.check_button = named(
            QPushButton("Check"),
            "Check the text",
            "Compare every token with the greedy choice of native ONNX Runtime",
        )
        self.check_button.clicked.connect(lambda: session.check_text())
        self.caption = QLabel(wordWrap=True)
        self.caption.setObjectName("muted")
        self.rates = named(
            QLabel(wordWrap=True),
            "Tokens a second",
            "From the page's clock, between one token and the next; "
            "the first token, which waits for the prompt, does not count",
        )
        self.checked = QLabel(wordWrap=True)
        self.out = named(QPlainTextEdit(readOnly=True), "New tokens' ids")
        form = self.form
        for button, field in (
            (form.decoder_button, form.decoder), (form.prefill_button, form.prefill),
        ):  # fmt: skip
            button.clicked.connect(lambda _=False, field=field: self._choose(field))
        form.prompt_button.clicked.connect(
            lambda: dialogs.ask_ids(self, self._folder(), self.read_prompt)
        )
        self._lay_out()
        session.busy_changed.connect(lambda _: self._follow())
        session.problem.connect(self._problem)
        self.form.changed.connect(self._follow)
        self._show_text()
        self._follow()

    def start_or_stop(self) -> None:
        """Make a text from the fields, or stop what runs."""
        if self._session.busy in JOBS:
            self._stop.trigger()
            return
        model = self._session.state.model
        try:
            request = self.form.request(model.path if model else None)
        except UserError as error:
            self._say(f"{error.error} {error.hint}")
            return
        self._session.make_text(request)

    def read_prompt(self, path: Path) -> None:
        """Take the prompt from a file, or say why not."""
        try:
            self.form.read_prompt(path)
        except UserError as error:
            self._say(f"{error.error} {error.hint}")

    def render(self, changes: frozenset[str]) -> None:
        if "phase" in changes and self._session.busy in JOBS:
            self._say(self._session.state.phase)
        if "text" in changes:
            self._show_text()
        if "model" in changes:
            self._follow()

    def set_theme(self, theme: Theme) -> None:
        self.plot.set_theme(theme)

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setContentsMargins(8, 6, 8, 4)
        row.setSpacing(6)
        row.addWidget(self.button)
        row.addWidget(self.check_button)
        row.addStretch(1)
        middle = QWidget()
        panel(middle)
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        self.rates.setContentsMargins(10, 0, 10, 4)
        column.addWidget(self.rates)
        column.addWidget(self.out, 1)
        for label in (self.caption, self.checked):
            label.setContentsMargins(10, 2, 10, 4)
            column.addWidget(label)
        scroll = QScrollArea(widgetResizable=True, frameShape=QFrame.Shape.NoFrame)
        scroll.setWidget(self.form)
        split = QSplitter(Qt.Orientation.Horizontal, childrenCollapsible=False)
        for widget, width in ((scroll, 340), (middle, 420), (self.plot, 420)):
            split.addWidget(widget)
            split.setStretchFactor(split.count() - 1, 0 if widget is scroll else 1)
            split.setSizes([*split.sizes()[:-1], width])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(split)

    def _show_text(self) -> None:
        state = self._session.state.text
        if state.begun is not self._shown_text:
            self.out.clear()
            self._shown_text, self._shown = state.begun, 0
        if fresh := state.tokens[self._shown :]:
            cursor = self.out.textCursor()
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText("".join(f"{t.id} " for t in fresh))
            bar = self.out.verticalScrollBar()
            bar.setValue(bar.maximum())
            self._shown = len(state.tokens)
        self.rates.setText(_rates(state))
        self.checked.setText(_checked(state))
        self.checked.setVisible(state.checked is not None)
        if state.ended is not None and self._session.busy != "check_text":
            self._say(_sentence(state))
        self.plot.redraw()
        self._follow()

    def _follow(self) -> None:
        busy, state = self._session.busy, self._session.state
        running = busy in JOBS
        chosen = self.form.decoder.text().strip() or not state.model
        why = "" if chosen else why_no_decoder(state.model.graph)
        self.out.setPlaceholderText(why or EMPTY)
        self.button.setText("Stop" if running else "Start")
        self.button.setEnabled(running or not (busy or why))
        self.check_button.setEnabled(not busy and state.text.may_be_checked)

    def _folder(self) -> Path:
        model = self._session.state.model
        return model.path.parent if model else Path.home()

    def _choose(self, field: QLineEdit) -> None:
        dialogs.ask_model(self, self._folder(), lambda path: field.setText(str(path)))

    def _say(self, words: str) -> None:
        self.caption.setText(words)

    def _problem(self, problem: Problem) -> None:
        if problem.job in JOBS:
            self._say(f"{problem.error} {problem.hint}".strip())


def _rates(state: TextState) -> str:
    if not state.tokens:
        return ""
    recent, whole = text.fixed(state.recent_rate, 1), text.fixed(state.rate, 1)
    return f"{recent} tokens/s in the last {RECENT_MS / 1000:g} s, {whole} of the whole text"


def _sentence(state: TextState) -> str:
    assert state.ended is not None and state.begun is not None
    begun, ended = state.begun, state.ended
    rows = f"up to {begun.prefill_rows} at once" if begun.prefill_rows else "one by one"
    return (
        f"{ended.tokens} tokens ({ENDS.get(ended.reason, ended.reason)})  ·  prompt of "
        f"{len(begun.request.ids)} read {rows} in {text.latency(state.prompt_ms)} ms  ·  cache of "
        f"{begun.capacity}  ·  Wasm memory {text.nbytes(ended.memory_bytes)}"
    )


def _checked(state: TextState) -> str:
    found = state.checked
    if found is None:
        return ""
    words = (
        f"Native ONNX Runtime: {found['same']} the same, {found['ties']} ties, "
        f"{found['wrong']} wrong."
    )
    if found["differing"]:
        first = found["differing"][0]
        words += f" The first that differs: token {first['index']}, {first['id']}, not "
        words += f"{first['native']}."
    return words
