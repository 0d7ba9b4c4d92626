"""Hands and eyes of a script in the real window: clicks, keys, waiting, pictures.

What a person cannot reach is out of reach here, too: the window is the one that ``nnjit studio``
opens, and nothing is called in it but its widgets' clicks and keys.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QEventLoop,
    QMimeData,
    QModelIndex,
    QPoint,
    QPointF,
    QSize,
    Qt,
    QTimer,
    QUrl,
)
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QLineEdit,
    QPushButton,
    QWidget,
)

from nnjit_studio.cli.running import workbench
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.ui.commands.palette import Palette
from nnjit_studio.ui.page.host import EngineView
from nnjit_studio.ui.page.visits import EmbeddedVisits
from nnjit_studio.ui.startup.app import Script, run_studio
from nnjit_studio.ui.window.main_window import StudioWindow

STEP_MS = 15
AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
REAL_POINTER = os.environ.get("QT_QPA_PLATFORM") == "xcb" and bool(shutil.which("xdotool"))
"""On a display the pointer itself moves: what covers a widget gets the click, as with a person."""


class NotReached(Exception):
    """The window did not show in time what it should."""


class Hands:
    """What a person does in the window, and what they see of it."""

    def __init__(self, window: StudioWindow) -> None:
        self.window = window

    def wait(self, ms: int) -> None:
        """Leave the window alone for so long, as a person does.

        QTest.qWait sleeps 10 ms at a time, in which Qt's thread serves nobody: each request of an
        embedded page passes that thread, and a page of 90 files started ten times as slowly.
        """
        loop = QEventLoop()
        QTimer.singleShot(ms, loop.quit)
        loop.exec()
        # A loop of its own leaves what the script had deleted: tabs of an earlier layout stayed.
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def until(self, what: str, seen: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait until something is seen.

        Raises
        ------
        NotReached
            When it is not seen in time; what the window says goes with it.
        """
        end = time.monotonic() + seconds
        while not seen():
            if time.monotonic() > end:
                said = self.window.message.text.text() if self.window.message.isVisible() else ""
                raise NotReached(f"{what}: not after {seconds:.0f} s. {said}")
            self.wait(STEP_MS)

    def click(self, widget: QWidget, place: QPoint | None = None) -> None:
        """A click on what is visible and enabled."""
        name = widget.accessibleName() or type(widget).__name__
        self.until(f"{name} can be clicked", lambda: widget.isVisible() and widget.isEnabled(), 5)
        at = place or widget.rect().center()
        if REAL_POINTER:
            point = widget.mapToGlobal(at) * widget.devicePixelRatioF()
            subprocess.run(
                ["xdotool", "mousemove", str(point.x()), str(point.y()), "click", "1"], check=True
            )
            self.wait(100)
        else:
            QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=at)

    def button(self, name: str) -> QWidget:
        """The visible button in the window's header that says this."""
        header = self.window.header
        found = [b for b in header.findChildren(QPushButton) if b.text() == name and b.isVisible()]
        if not found:
            raise NotReached(f"the header has no button {name}")
        return found[0]

    def press(self, keys: str, widget: QWidget | None = None) -> None:
        """A shortcut such as ``Ctrl+E``."""
        target = widget or self.window
        target.activateWindow()
        QTest.keySequence(target, QKeySequence(keys))

    def dialog(self, kind: type[QDialog]) -> QDialog:
        """The dialog of a kind that is open, waited for."""
        self.until(f"a {kind.__name__} opens", lambda: self._dialogs(kind), 5)
        return self._dialogs(kind)[-1]

    def _dialogs(self, kind: type[QDialog]) -> list[QDialog]:
        return [d for d in self.window.findChildren(kind) if d.isVisible()]

    def drop(self, path: Path) -> None:
        """Drop a file on the window, as a file manager does."""
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path))])
        place = QPointF(self.window.rect().center())
        copy, left, bare = (
            Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier,
        )  # fmt: skip
        entered = QDragEnterEvent(place.toPoint(), copy, data, left, bare)
        QApplication.sendEvent(self.window, entered)
        if not entered.isAccepted():
            raise NotReached(f"the window takes no {path.name}")
        QApplication.sendEvent(self.window, QDropEvent(place, copy, data, left, bare))

    def save_as(self, path: Path) -> None:
        """Type a name into the file dialog that is open, and click its button."""
        dialog = self.dialog(QFileDialog)
        field = dialog.findChild(QLineEdit, "fileNameEdit")
        field.selectAll()
        QTest.keyClicks(field, str(path))
        self.wait(300)  # the dialog reads the folder of what was typed
        buttons = dialog.findChild(QDialogButtonBox)
        for _ in range(3):  # a first click may only close the list of completions
            if self._dialogs(QFileDialog):
                self.click(buttons.button(QDialogButtonBox.StandardButton.Save))
                self.wait(300)
        self.until("the file dialog closes", lambda: not self._dialogs(QFileDialog), 5)

    def open_file(self, file: str) -> None:
        """Click a file in the list of the file dialog that is open, and its button."""
        dialog = self.dialog(QFileDialog)
        views = (dialog.findChild(QAbstractItemView, name) for name in ("listView", "treeView"))
        files = next(view for view in views if view.isVisible())

        def found() -> QModelIndex | None:
            root, model = files.rootIndex(), files.model()
            rows = (model.index(i, 0, root) for i in range(model.rowCount(root)))
            return next((row for row in rows if row.data() == file), None)

        self.until(f"{file} is listed", found)
        files.scrollTo(found())
        self.click(files.viewport(), files.visualRect(found()).center())
        self.click(dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.Open))
        self.until("the file dialog closes", lambda: not self._dialogs(QFileDialog), 5)

    def command(self, typed: str) -> None:
        """A command of the palette, by a few of its letters."""
        self.press("Ctrl+Shift+P")
        palette = self.dialog(Palette)
        QTest.keyClicks(palette.field, typed)
        QTest.keyClick(palette.field, Qt.Key.Key_Return)
        self.until("the palette closes", lambda: not self._dialogs(Palette), 5)

    def idle(self, what: str, seconds: float) -> None:
        """Wait until nothing runs."""
        self.until(what, lambda: not self.window.session.busy, seconds)

    def picture(self, path: Path, widget: QWidget | None = None) -> None:
        """A PNG of the window, or of a part of it, as it is drawn."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.wait(200)  # what was just shown is laid out and painted later than it is there
        if not (widget or self.window).grab().save(str(path), "PNG"):
            raise NotReached(f"the picture {path} could not be written")


def in_window(
    script: Callable[[Hands], None],
    database: Path,
    size: QSize | None = None,
    gpu: str = "auto",
    compares: bool = False,
) -> None:
    """Open the window as ``nnjit studio`` does, run a script in it, and close it.

    With ``compares`` it has pages of its own for verdict and advice, as a user's window has.

    Raises
    ------
    NotReached
        And whatever else the script raises, once the window is closed.
    """
    failed: list[BaseException] = []

    def begin() -> None:
        windows = [w for w in QApplication.topLevelWidgets() if isinstance(w, StudioWindow)]
        window = windows[-1]
        if size is not None:
            window.resize(size)
        try:
            script(Hands(window))
        except BaseException as error:  # raised again below, where it can be seen
            failed.append(error)
        window.close()

    def view(url: str, parent: QWidget) -> EngineView:
        QTimer.singleShot(0, begin)
        return EngineView(url, parent)

    target = TargetOptions(gpu=gpu, no_sandbox=AS_ROOT, database=database)
    with workbench(target) as opened:
        visits = EmbeddedVisits if compares else None
        run_studio(opened.bench, Script(), view, visits)
    if failed:
        raise failed[0]


def as_a_stranger() -> tempfile.TemporaryDirectory[str]:
    """Settings, cache and data of nobody, for this process; the folder goes when it ends."""
    home = tempfile.TemporaryDirectory(prefix="nnjit-walk-")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        os.environ[name] = home.name
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    return home
