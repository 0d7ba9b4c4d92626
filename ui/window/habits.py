"""What a window of this kind is expected to do beside its subject: wired in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, QObject
from PySide6.QtWidgets import QMessageBox

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.files import unfinished_session as unfinished
from nnjit_studio.ui.records.actions import RecordActions
from nnjit_studio.ui.records.store import WindowChange
from nnjit_studio.ui.state.session import Problem
from nnjit_studio.ui.widgets.worker import Worker
from nnjit_studio.ui.window import dropped_files as drops
from nnjit_studio.ui.window import layouts, preferences, session_file
from nnjit_studio.ui.window.session_file import SavedSession

if TYPE_CHECKING:
    from nnjit_studio.ui.records.dock import DatabasePanel
    from nnjit_studio.ui.window.main_window import StudioWindow


class Habits(QObject):
    """Records, dropped files, layouts, settings and session files of a window."""

    def __init__(self, window: StudioWindow) -> None:
        super().__init__(window)
        self._window = window
        self._awaited: SavedSession | None = None
        self._files = Worker(self)
        self._files.returned.connect(self._read)
        self._files.failed.connect(lambda job, e: window._problem(Problem.of(job, e)))
        self._resuming = False
        window.session.done.connect(self._done)
        window.session.problem.connect(self._failed)
        window.session.busy_changed.connect(self._begun)
        window.tuning.show_budget(self.budget_s)
        window.tuning.budget_chosen.connect(
            lambda seconds: window.settings.setValue("budget_s", seconds or 0.0)
        )
        if (last := unfinished.read(window.settings)) is not None:
            window.message.say(str(last))

    @property
    def records(self) -> RecordActions:
        """What is done to records; makes their view if need be."""
        self._window.docks["database"].fill()
        return self._records

    def use_records(self, panel: DatabasePanel) -> None:
        """Act on the records of this view."""
        window = self._window
        self._records = RecordActions(window, panel, window.saver, window.message)
        panel.store.problem.connect(window._problem)

    # Dropped files

    def drop(self, path: Path) -> bool:
        """Find out what a file is and take it; False while another one is being read."""
        if path.suffix.lower() == ".onnx":
            return self._window.open_model(path)
        return self._files.start("drop", lambda _: drops.recognise(path))

    def _read(self, _: str, found: Any) -> None:
        if isinstance(found, SavedSession):
            self._take_session(found)
            return
        if isinstance(found, Path):
            self._window.message.say(f"Written: {found}", "good")
            return
        window = self._window
        if found.kind == drops.DATABASE:
            self.records.look_into(found.path)
        elif found.kind == drops.BUNDLE:
            title = f"{found.path.name} is whole"
            box = QMessageBox(QMessageBox.Icon.Information, title, found.words, parent=window)
            dialogs.show(box)
        elif found.kind == drops.PROFILE:
            self._compare(found.path)
        elif found.kind == drops.SAVED_SESSION:
            self.open_session(found.path)
        else:
            window.message.say(
                f"{found.path.name} is {found.words}: open it in Perfetto. To compare two runs, "
                "drop a saved profile."
            )

    def _compare(self, path: Path) -> None:
        window = self._window
        if window.session.state.model is None:
            window.message.say(f"{path.name} is a saved profile: open its model first, then drop.")
            return
        window.profile.compare.compare_with_file(path)
        window.graph.compare_with_file(path)
        window._show_dock("profile")
        window.message.say(f"Comparing with {path.name}: in the graph, and in Profile, Compare.")

    # Layouts and settings

    def arrange(self, action: str) -> None:
        """Take one of the named layouts."""
        window, layout = self._window, layouts.LAYOUTS[action]

        def take() -> None:
            window.reset_layout()
            layouts.arrange(window.docks, layout)

        self.rearrange(f"Took the layout {layout.name}", take)

    def rearrange(self, done: str, take: Callable[[], object]) -> None:
        """Move docks, so that undo puts them back where the user had them."""
        window, before = self._window, self._window.saveState(session_file.VERSION)
        window.database.store.change_window(
            WindowChange(done, take, lambda: window.restoreState(before, session_file.VERSION))
        )

    def clear_recent(self) -> None:
        """Empty the list of recent models, so that undo fills it again."""
        settings = self._window.settings
        paths = recent.recent(settings)
        self._window.database.store.change_window(
            WindowChange(
                "Cleared the list of recent models",
                lambda: recent.forget(settings),
                lambda: recent.put_back(settings, paths),
            )
        )

    def ask_settings(self) -> None:
        values = preferences.read(self._window.settings)
        dialogs.show(preferences.PreferencesDialog(self._window, values, self.apply))

    def apply(self, changed: Mapping[str, Any]) -> None:
        """Let settings hold: now where that is possible, else from the next start on."""
        window = self._window
        later = [preferences.BY_KEY[k].label for k in changed if preferences.BY_KEY[k].later]
        for key, value in changed.items():
            if key == "theme":
                window.choose_theme(value)
                for action in window.theme_actions.actions():
                    action.setChecked(action.text().lower() == value)
            elif key == "backend":
                place = preferences.BY_KEY[key].choices.index(value)
                if not window.backend.choose(place):
                    window.message.say("Something is running: stop it, then change the backend.")
            else:
                window.settings.setValue(key, value)
                window.tuning.show_budget(self.budget_s)
        if later:
            window.message.say(f"From the next start on: {', '.join(later)}.")

    @property
    def budget_s(self) -> float | None:
        """Seconds for a session; None: until nothing more is expected."""
        return float(preferences.read(self._window.settings)["budget_s"]) or None

    # Session files

    def ask_save_session(self) -> None:
        saver = self._window.saver
        saver.ask_for_model("Save session", ".nnjit-session.json", self.save_session)

    def ask_open_session(self) -> None:
        dialogs.ask_session(self._window, self._window.saver.folder, self.open_session)

    def save_session(self, path: Path) -> bool:
        """Write a session in a thread; False while another file is being read or written."""
        window, state = self._window, self._window.session.state
        saved = SavedSession(
            state.model.path if state.model else None,
            state.selected,
            bytes(window.saveState(session_file.VERSION).data()),
            {k: preferences.read(window.settings)[k] for k in ("theme", "budget_s")},
            self._last_run(),
        )

        def write(_: object) -> Path:
            session_file.write(path, saved)
            return path

        return self._files.start("save session", write)

    def open_session(self, path: Path) -> bool:
        """Read a session in a thread, then open its model and show its results."""
        if self._window.session.busy:
            self._window.message.say("Something is running: stop it first, then open a session.")
            return False
        return self._files.start("session", lambda _: session_file.read(path))

    def _last_run(self) -> list[Any]:
        """Events of the latest tuning session of the open model."""
        events = self._window.session.events
        starts = [i for i, event in enumerate(events) if event.name == "started"]
        model = self._window.session.state.model
        if not starts or model is None or events[starts[-1]].model != model.graph.name:
            return []
        return events[starts[-1] :]

    def _take_session(self, saved: SavedSession) -> None:
        window = self._window
        self.apply(saved.settings)
        layout = QByteArray(saved.layout)
        self.rearrange(
            "Took the session's layout",
            lambda: window.restoreState(layout, session_file.VERSION),
        )
        self._awaited = saved if saved.model and window.open_model(saved.model) else None

    def _done(self, job: str, _: object) -> None:
        if job == "tune" and not self._window._closing:
            unfinished.forget(self._window.settings)
        if job == "open" and self._resuming:
            self._resuming = False
            self._window.start_tuning()
        saved, self._awaited = self._awaited, None
        if job != "open" or saved is None:
            return
        session = self._window.session
        session.events.extend(saved.events)
        session.state.reduce(saved.events)
        session.select(saved.workload)
        session.refresh()

    def _failed(self, problem: Problem) -> None:
        if problem.job == "open":
            self._awaited, self._resuming = None, False
        if problem.job == "tune":
            unfinished.forget(self._window.settings)

    # Tuning that did not end

    def resume_last(self) -> bool:
        """Open the model whose tuning did not end, and tune it: known candidates stay known."""
        last, window = unfinished.read(self._window.settings), self._window
        if last is None:
            window.message.say("No tuning waits to be resumed: start one with F5.")
            return False
        self._resuming = window.open_model(last.model)
        return self._resuming

    def _begun(self, job: str) -> None:
        model = self._window.session.state.model
        if job == "tune" and model is not None:
            unfinished.note(self._window.settings, model.path)


def handlers(window: StudioWindow) -> dict[str, Callable[[], object]]:
    """Of actions; the window has its habits only when its views are built."""
    return {
        "open_session": lambda: window.habits.ask_open_session(),
        "save_session": lambda: window.habits.ask_save_session(),
        "import": lambda: window.habits.records.ask_import(),
        "export_records": lambda: window.habits.records.ask_export(),
        "undo": lambda: window.habits.records.undo(),
        "redo": lambda: window.habits.records.redo(),
        "note": lambda: window.habits.records.note(),
        "delete": lambda: window.habits.records.delete(),
        "restore": lambda: window.habits.records.restore(),
        "settings": lambda: window.habits.ask_settings(),
        **{name: lambda name=name: window.habits.arrange(name) for name in layouts.LAYOUTS},
    }
