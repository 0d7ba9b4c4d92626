"""Saving and opening sessions: model, results, layout and settings as one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, QObject

from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import JobProblem, reader
from nnjit_studio.ui.window import preferences, session_file
from nnjit_studio.ui.window.docks import WindowDocks
from nnjit_studio.ui.window.in_the_way import InTheWay
from nnjit_studio.ui.window.session_file import SavedSession

KEPT_SETTINGS = ("theme", "budget_s")


class SessionFiles(QObject):
    """Reads and writes sessions in a thread; the results are shown when their model is open."""

    def __init__(
        self,
        host: Host,
        docks: WindowDocks,
        open_model: Callable[[Path], bool],
        apply_settings: Callable[[Mapping[str, Any]], object],
        way: InTheWay,
    ) -> None:
        super().__init__(host)
        self._way = way
        self._host, self._docks = host, docks
        self._open_model, self._apply_settings = open_model, apply_settings
        self._awaited: SavedSession | None = None
        self._files = reader(self, self._take, host.tell)
        host.session.done.connect(self._done)
        host.session.problem.connect(self._failed)
        host.session.abandoned.connect(self._forget)

    def ask_save(self) -> None:
        self._host.saver.ask_for_model("Save session", ".nnjit-session.json", self.save)

    def ask_open(self) -> None:
        dialogs.ask_file(self._host.window, dialogs.SESSIONS, self._host.saver.folder, self.open)

    def save(self, path: Path) -> bool:
        """Write a session in a thread; False while another file is being read or written."""
        state, settings = self._host.session.state, preferences.read(self._host.settings)
        saved = SavedSession(
            state.model.path if state.model else None,
            state.selected,
            bytes(self._docks.arranging.places().data()),
            {key: settings[key] for key in KEPT_SETTINGS},
            self._last_run(),
        )

        def work(_: object) -> Path:
            session_file.write(path, saved)
            return path

        return self._files.start("save session", work)

    def open(self, path: Path) -> bool:
        """Read a session in a thread, then open its model and show its results."""
        if self._host.session.busy:
            self._way.offer(f"open {path.name}", lambda: self.open(path))
            return False
        return self._files.start("session", lambda _: session_file.read(path))

    def _last_run(self) -> list[ev.Event]:
        """Events of the latest tuning session of the open model."""
        events, model = self._host.session.events, self._host.session.state.model
        match events:
            case [ev.SessionStarted(model=name), *_] if model and name == model.graph.name:
                return list(events)
        return []

    def _take(self, result: Path | SavedSession) -> None:
        if isinstance(result, Path):
            self._host.message.say(f"Written: {result}", "good")
            return
        self._apply_settings(result.settings)
        arranging, places = self._docks.arranging, QByteArray(result.layout)
        arranging.rearrange("Took the session's layout", partial(arranging.place, places))
        opened = result.model is not None and self._open_model(result.model)
        self._awaited = result if opened else None

    def _done(self, job: str, _: object) -> None:
        saved, self._awaited = self._awaited, None
        if job == "open" and saved is not None:
            session = self._host.session
            session.events.keep(saved.events)
            session.state.reduce(saved.events)
            session.select(saved.workload)
            session.refresh()

    def _forget(self) -> None:
        self._awaited = None

    def _failed(self, problem: JobProblem) -> None:
        if problem.job == "open":
            self._awaited = None
