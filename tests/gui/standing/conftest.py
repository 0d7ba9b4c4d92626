"""One window for all tests of a file, put back before each: making one costs more than a test.

For tests of an open model, since opening it again empties every view. One that closes the window,
or takes a view out of it, needs a window of its own.
"""

from __future__ import annotations

import pytest
from gui_fakes import FakeWorkbench, engine_label, small_model
from gui_window import StudioWindow
from PySide6.QtCore import QSettings
from PySide6.QtTest import QSignalSpy
from PySide6.QtWidgets import QTabWidget
from waiting import PATIENCE_S

from nnjit_studio.ui.kernel import settings as kernel_settings
from nnjit_studio.ui.widgets import worker


@pytest.fixture(scope="module")
def standing(qapp, collected_here, tmp_path_factory):
    """The window with its workbench."""
    path = tmp_path_factory.mktemp("window") / "settings.ini"
    kept = QSettings(str(path), QSettings.Format.IniFormat)
    kept.setValue("measure_opened", "no")
    workbench = FakeWorkbench(small_model())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker, "REFRESH_MS", 5)
        patched.setattr(kernel_settings, "SETTLE_MS", 20)
        window = StudioWindow(workbench, engine_label, kept)
        window.show()
        yield window, workbench
        ended = QSignalSpy(window.closed)
        window.close()
        assert ended.count() or ended.wait(round(1000 * PATIENCE_S))
    window.deleteLater()


@pytest.fixture(autouse=True)
def collected():
    """Nothing is collected between tests: the window's menus have no parent."""


@pytest.fixture
def workbench(standing):
    _, bench = standing
    bench.__init__(small_model())
    yield bench
    bench.release.set()


@pytest.fixture
def window(standing, workbench):
    window, _ = standing
    window.actions_by_id["reset_layout"].trigger()
    window.message.hide()
    for tabs in window.findChildren(QTabWidget):
        tabs.setCurrentIndex(0)
    return window
