"""A table that a job of the session fills: its button, its result, and whether that is outdated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel

from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import ground, push_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel

NO_MODEL, OPENING = "Open a model first (Ctrl+O).", "The model is being opened."
OUTDATED = "Kernels or inputs may have changed since. "


class JobTable(TablePanel):
    """Shows the result of one job of the open model, from a button that also stops it.

    Parameters
    ----------
    job
        The session's name of it, and of the action that starts it.
    empty
        A sentence for the time before there is a result.
    """

    def __init__(
        self, host: Host, title: str, columns: Sequence[Column], job: str, empty: str
    ) -> None:
        super().__init__(title, columns, host.theme)
        self._session, self._job, self._empty = host.session, job, empty
        self._start, self._stop = host.actions[job], host.actions["stop"]
        self.result: Any = None
        self.outdated = False
        self.button = push_button(
            "", f"{title}: start or stop", act=lambda: self._action().trigger()
        )
        self.caption = caption()
        self.lead(self.button, self.caption)
        self._start.changed.connect(self._follow)
        self._session.busy_changed.connect(self._busy_changed)
        self._session.done.connect(self._done)
        self._follow()
        self._tell()

    def keep_order(self, pick: Callable[[], None]) -> None:
        """Show rows as they are given, without sorting or filter; ``pick`` follows the choice."""
        self.view.setSortingEnabled(False)
        self.view.selectionModel().selectionChanged.connect(pick)
        self.filter.hide()

    def refresh(self, changes: frozenset[str]) -> None:
        if "phase" in changes and self._session.busy == self._job:
            self.caption.setText(self._session.state.phase)

    def show_result(self, result: Any) -> None:
        """Keep a result and show it; None for a model that has none yet."""
        self.result, self.outdated = result, False
        self.fill()
        self._tell()

    def show_last(self) -> None:
        """Show what the job returned before this view was made."""
        if self._job in self._session.results:
            self.show_result(self._session.results[self._job])

    def fill(self) -> None:
        """Show the result's rows."""
        raise NotImplementedError

    def sentence(self) -> str:
        """The result in a line."""
        raise NotImplementedError

    def _tell(self) -> None:
        words = "" if self.result is None else self.sentence()
        self.caption.setText((OUTDATED if self.outdated else "") + words)
        self.tell_nothing()

    def tell_nothing(self) -> None:
        """Before there is a result, what the job will show."""
        super().tell_nothing()
        if self.result is not None:
            return
        running = self._session.running
        first = "" if self._session.state.model else f"{NO_MODEL}\n\n"
        self.nothing.say({self._job: "", "open": OPENING}.get(running, first + self._empty))

    def _action(self) -> QAction:
        return self._stop if self._session.busy == self._job else self._start

    def _follow(self) -> None:
        action = self._action()
        self.button.setText(action.iconText())
        self.button.setToolTip(action.toolTip())
        self.button.setEnabled(action.isEnabled())

    def _busy_changed(self, job: str) -> None:
        self._follow()
        if job in ("tune", "try") and self.result is not None:
            self.outdated = True
        if job != self._job:
            self._tell()
        self.tell_nothing()

    def _done(self, job: str, result: object) -> None:
        if job == self._job:
            self.show_result(result)
        elif job == "feed" and self.result is not None:
            self.outdated = True
            self._tell()
        elif job == "open":
            self.show_result(None)


class AnsweringTable(JobTable):
    """Has what its result says in words above the rows; its first sentence is the caption."""

    def __init__(
        self, host: Host, title: str, columns: Sequence[Column], job: str, empty: str
    ) -> None:
        super().__init__(host, title, columns, job, empty)
        self.answer = ground(QLabel(wordWrap=True))
        self.answer.setContentsMargins(10, 2, 10, 6)
        self.answer.hide()
        self.box.insertWidget(1, self.answer)

    def words(self) -> Sequence[str]:
        """The sentences of the result."""
        raise NotImplementedError

    def fill_with(self, rows: Sequence[Any]) -> None:
        """Show these rows, and the words above them."""
        self.model.set_rows(rows, keep=False)
        said = " ".join(self.words()[1:]) if self.result else ""
        self.answer.setText(said)
        self.answer.setVisible(said != "")

    def sentence(self) -> str:
        return self.words()[0]
