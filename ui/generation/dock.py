"""Text of a decoder: a prompt of words or ids, new tokens as they are made, and their rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QTextCursor
from PySide6.QtWidgets import QLabel, QLineEdit, QPlainTextEdit

from nnjit_studio.errors import UserError
from nnjit_studio.generation.prompts import why_no_decoder
from nnjit_studio.generation.session import CANCELLED, TextBegun
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.generation.form import TextForm
from nnjit_studio.ui.state.jobs import Job, JobProblem
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.state.text_state import RECENT_MS, TextState
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import Panel, hbox, named, push_button, scrolled, splitter, vbox
from nnjit_studio.ui.widgets.plots.panel import PlotPanel, Table, pen
from nnjit_studio.ui.widgets.theme import Theme

EMPTY = "Type a prompt, then start."
ENDS = {
    "length": "all tokens made",
    "stop": "the model ended it",
    "full": "the cache is full",
    CANCELLED: "stopped",
}
JOBS = ("text", "check_text")


class TextPanel(Panel):
    """Fields on the left, tokens in the middle, milliseconds on the right."""

    def __init__(self, session: StudioSession, theme: Theme, stop: QAction) -> None:
        super().__init__()
        self._session, self._stop = session, stop
        self._shown_text: TextBegun | None = None
        self._shown = 0
        self.form = TextForm()
        self.plot = TextPlot(session, theme)
        tip = "Continue the prompt (Ctrl+Enter)"
        self.button = push_button("Start", "Make text", tip, self.start_or_stop)
        self.button.setShortcut("Ctrl+Return")
        self.check_button = push_button(
            "Check",
            "Check the text",
            "Compare every token with the greedy choice of native ONNX Runtime",
            self.check,
        )
        self.caption = quiet(QLabel(wordWrap=True))
        self.rates = named(
            QLabel(wordWrap=True),
            "Tokens a second",
            "From the page's clock, between one token and the next; "
            "the first token, which waits for the prompt, does not count",
        )
        self.checked = QLabel(wordWrap=True)
        self.out = named(QPlainTextEdit(readOnly=True), "New tokens")
        form = self.form
        for button, field in (
            (form.decoder_button, form.decoder), (form.prefill_button, form.prefill),
        ):  # fmt: skip
            button.clicked.connect(lambda _=False, field=field: self._choose(field))
        form.prompt_button.clicked.connect(
            lambda: dialogs.ask_file(self, dialogs.TOKEN_IDS, self._folder(), self.read_prompt)
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
        texts = self._session.texts
        self._session.run(
            Job(
                "text",
                f"Opening {request.path.name}",
                lambda _, tell: texts.generate(request, tell),
                needs_model=False,
            )
        )

    def check(self) -> None:
        """Compare the last text with native ONNX Runtime."""
        texts, phase = self._session.texts, "Comparing the text with ONNX Runtime"
        self._session.run(
            Job("check_text", phase, lambda _, tell: texts.check(tell), needs_model=False)
        )

    def read_prompt(self, path: Path) -> None:
        """Take the prompt from a file, or say why not."""
        try:
            self.form.read_prompt(path)
        except UserError as error:
            self._say(f"{error.error} {error.hint}")

    def refresh(self, changes: frozenset[str]) -> None:
        if "phase" in changes and self._session.busy in JOBS:
            self._say(self._session.state.phase)
        if "text" in changes:
            self._show_text()
        if "model" in changes:
            self._follow()

    def set_theme(self, theme: Theme) -> None:
        self.plot.set_theme(theme)

    def _lay_out(self) -> None:
        middle = Panel()
        for label, margins in (
            (self.rates, (10, 0, 10, 4)), (self.caption, (10, 2, 10, 4)),
            (self.checked, (10, 2, 10, 4)),
        ):  # fmt: skip
            label.setContentsMargins(*margins)
        bar = hbox(self.button, self.check_button, None, margins=(8, 6, 8, 4))
        vbox(bar, self.rates, (self.out, 1), self.caption, self.checked, on=middle)
        fields = scrolled(self.form)
        split = splitter(Qt.Orientation.Horizontal, (fields, 410), (middle, 420), (self.plot, 350))
        for place, share in enumerate((0, 2, 1)):
            split.setStretchFactor(place, share)
        vbox(split, on=self)

    def take_keys(self) -> None:
        """A text begins with its prompt."""
        self.form.prompt.setFocus()

    def _show_text(self) -> None:
        state = self._session.state.text
        if state.begun is not self._shown_text:
            self.out.clear()
            self._shown_text, self._shown = state.begun, 0
        if fresh := state.tokens[self._shown :]:
            cursor = self.out.textCursor()
            cursor.movePosition(QTextCursor.MoveOperation.End)
            spelled = state.letters[self._shown :]
            words = state.request is not None and state.request.text
            cursor.insertText("".join(spelled if words else (f"{t.id} " for t in fresh)))
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
        running, why = busy in JOBS, ""
        if state.model is not None and not self.form.decoder.text().strip():
            why = why_no_decoder(state.model.graph)
        self.out.setPlaceholderText(why or EMPTY)
        self.button.setText("Stop" if running else "Start")
        self.button.setEnabled(running or not (busy or why))
        self.check_button.setEnabled(not busy and state.text.may_be_checked)

    def _folder(self) -> Path:
        model = self._session.state.model
        return model.path.parent if model else Path.home()

    def _choose(self, field: QLineEdit) -> None:
        dialogs.ask_file(
            self, dialogs.MODELS, self._folder(), lambda path: field.setText(str(path))
        )

    def _say(self, words: str) -> None:
        self.caption.setText(words)

    def _problem(self, problem: JobProblem) -> None:
        if problem.job in JOBS:
            self._say(str(problem))


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


class TextPlot(PlotPanel):
    """The first token is left out: it waits for the prompt."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        super().__init__(
            "Time per token", "new token", "time since the one before", "ms",
            "Each new token's time appears here.", theme,
        )  # fmt: skip
        self.plot.setAccessibleDescription("The line above the tokens has the rates.")
        self._session = session
        self.item.setLimits(yMin=0, xMin=0)
        self.line = self.pg.PlotDataItem(skipFiniteCheck=True)
        self.line.setDownsampling(auto=True, method="peak")
        self.item.addItem(self.line)
        self.set_theme(theme)

    def redraw(self) -> None:
        ms = np.array([t.ms for t in self._session.state.text.tokens[1:]], dtype=np.float64)
        self.show_empty(not len(ms))
        if len(ms):
            self.frame(float(ms.max()))
        self.line.setData(np.arange(1, len(ms) + 1), ms)

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.line.setPen(pen(theme.accent, 1.6))

    def table(self) -> Table:
        tokens = self._session.state.text.tokens
        rows = [(i, t.id, t.ms, t.margin) for i, t in enumerate(tokens)]
        return ("index", "id", "ms", "margin"), rows
