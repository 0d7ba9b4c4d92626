"""When something breaks that nobody expected: a report on this machine, and a dialog with it."""

from __future__ import annotations

import contextlib
import datetime
import logging
import platform
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import platformdirs
from PySide6.QtCore import QObject, Qt, Signal, qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio import __version__
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.widgets.panel import named, scaled_font

log = logging.getLogger(__name__)
KEPT = 20
"""Reports that stay in the folder, the newest."""


def report_folder() -> Path:
    """Where reports are; nothing takes them from there."""
    return Path(platformdirs.user_log_dir("nnjit-studio", appauthor=False)) / "crashes"


def report_text(error: BaseException, thread: str) -> str:
    """Everything that a bug report needs."""
    return "\n".join(
        (
            f"NNJIT Studio {__version__}, {datetime.datetime.now().astimezone().isoformat()}",
            f"Python {platform.python_version()}, Qt {qVersion()}, {platform.platform()}",
            f"Thread {thread}",
            "",
            "".join(traceback.format_exception(error)),
        )
    )


def write_report(folder: Path, words: str) -> Path | None:
    """Keep a report; None where the folder cannot be written."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    path = folder / f"crash-{stamp}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(words, encoding="utf-8")
        for old in sorted(folder.glob("crash-*.txt"))[:-KEPT]:
            old.unlink()
    except OSError as e:
        log.error("the crash report cannot be written: %s", e)
        return None
    return path


class CrashReporter(QObject):
    """Takes what no code caught, in any thread; one dialog at a time, the first is the cause."""

    happened = Signal(str, str)

    def __init__(self, window: QWidget, folder: Path) -> None:
        super().__init__(window)
        self._window, self._folder = window, folder
        self.dialog: CrashDialog | None = None
        # Queued, so that the dialog opens in Qt's thread whichever thread broke.
        self.happened.connect(self._show, Qt.ConnectionType.QueuedConnection)

    def take(self, error: BaseException, thread: str) -> None:
        """Keep a report and have it shown."""
        words = report_text(error, thread)
        log.critical("unexpected: %s", words)
        path = write_report(self._folder, words)
        with contextlib.suppress(RuntimeError):  # the window is gone; the report is kept
            self.happened.emit(words, str(path or ""))

    def _show(self, words: str, path: str) -> None:
        if self.dialog is None:
            self.dialog = CrashDialog(self._window, words, path)
            self.dialog.destroyed.connect(self._closed)
            dialogs.show(self.dialog)

    def _closed(self) -> None:
        self.dialog = None


class CrashDialog(QDialog):
    """What happened, where the report is, and a button that copies it."""

    def __init__(self, parent: QWidget, words: str, path: str) -> None:
        super().__init__(parent)
        self.setWindowTitle("Something went wrong")
        where = f"The report is in {path}." if path else "The report could not be written."
        said = QLabel(
            "The Studio met an error that it did not expect. What was measured is in the "
            f"database; save your session and start the Studio again.\n{where} "
            "It stays on this machine: copy it into a bug report if you like.",
            wordWrap=True,
        )
        said.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.report = named(QPlainTextEdit(words, readOnly=True), "Crash report")
        self.report.setFont(scaled_font(self.report.font(), 0.95))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.copy_button = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        self.copy_button.clicked.connect(
            lambda: QGuiApplication.clipboard().setText(self.report.toPlainText())
        )
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        for widget in (said, self.report, buttons):
            column.addWidget(widget)
        self.resize(720, 420)


@contextlib.contextmanager
def reporting(window: QWidget, folder: Path | None = None) -> Iterator[CrashReporter]:
    """While this holds, unexpected errors of every thread are reported; then as before."""
    reporter = CrashReporter(window, folder or report_folder())
    before = sys.excepthook, threading.excepthook

    def of_main(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, KeyboardInterrupt):
            reporter.take(error, threading.current_thread().name)
        before[0](kind, error, trace)

    def of_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            reporter.take(args.exc_value, args.thread.name if args.thread else "unknown")
        before[1](args)

    hooks: tuple[Callable[..., None], Callable[..., None]] = (of_main, of_thread)
    sys.excepthook, threading.excepthook = hooks
    try:
        yield reporter
    finally:
        sys.excepthook, threading.excepthook = before
