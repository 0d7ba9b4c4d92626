"""Every GUI test runs offscreen, with settings of its own."""

from __future__ import annotations

import gc
import os
from dataclasses import replace

os.environ["QT_QPA_PLATFORM"] = "offscreen"

import pytest
from gui_fakes import FakeWorkbench, engine_label, finish, small_model
from gui_window import StudioWindow
from PySide6.QtCore import QCoreApplication, QEvent, QSettings
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from verdicts import fake_peer
from waiting import PATIENCE_S

from nnjit_studio.foreign_wasm.inspection import survey
from nnjit_studio.ui.kernel import settings as kernel_settings
from nnjit_studio.ui.opening import kept_inputs
from nnjit_studio.ui.startup import app
from nnjit_studio.ui.wasm import dock as wasm_dock
from nnjit_studio.ui.widgets import worker
from nnjit_studio.verdict import peers

PATIENCE_MS = round(1000 * PATIENCE_S)


class PatientBot(QtBot):
    """Waits for what must come, however slow the machine; no test says a time of its own."""

    def waitSignal(self, signal, **options):
        return super().waitSignal(signal, timeout=PATIENCE_MS, **options)

    def waitUntil(self, callback):
        super().waitUntil(callback, timeout=PATIENCE_MS)


@pytest.fixture
def qtbot(qapp, request):
    return PatientBot(request)


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """What the window puts off for a human's sake comes at once."""
    monkeypatch.setattr(worker, "REFRESH_MS", 5)
    monkeypatch.setattr(kernel_settings, "SETTLE_MS", 20)
    monkeypatch.setattr(app, "SETTLE_MS", 20)


@pytest.fixture(autouse=True)
def own_inputs(monkeypatch, tmp_path):
    """Inputs are kept for files in a folder of each test."""
    monkeypatch.setattr(kept_inputs, "folder", lambda: tmp_path / "inputs")


@pytest.fixture(autouse=True, scope="module")
def collected_here():
    """As in the program: widgets that are garbage die on Qt's thread, not in some other.

    What was there before stays out of later searches, which would take longer than many a test.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.collect()
    gc.enable()


@pytest.fixture(autouse=True)
def collected(collected_here):
    """Nothing of a test's window is left: the next one would style and draw it too."""
    before = set(QApplication.topLevelWidgets())
    yield
    for widget in set(QApplication.topLevelWidgets()) - before:  # pyqtgraph's menus have no parent
        widget.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()
    gc.freeze()  # what stays is in use: no later search goes through it again


@pytest.fixture
def settings(tmp_path):
    made = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)
    made.setValue("measure_opened", "no")  # what runs by itself has tests of its own
    return made


@pytest.fixture
def fake_model():
    """What the fake workbench opens, whatever file it is given."""
    return small_model()


@pytest.fixture
def workbench(fake_model):
    bench = FakeWorkbench(fake_model)
    yield bench
    bench.release.set()


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "tiny.onnx"
    path.write_bytes(b"not read by the fake")
    return path


@pytest.fixture
def window(qtbot, workbench, settings):
    made = StudioWindow(workbench, engine_label, settings)
    qtbot.addWidget(made, before_close_func=lambda w: finish(qtbot, workbench, w))
    made.show()
    return made


SURVEYS = {}


@pytest.fixture
def read_once(monkeypatch):
    """A file is read by a process once, whichever test is first: one start costs half a test."""

    def survey_file(path, note):
        data = path.read_bytes()
        if data not in SURVEYS:
            SURVEYS[data] = survey.survey_file(path, note)
        return replace(SURVEYS[data], path=path)

    monkeypatch.setattr(wasm_dock, "survey_file", survey_file)


class NoVisits:
    """Of a workbench that only plays."""

    def visit(self, server, page):
        raise AssertionError("no page is opened")

    def shut_down(self):
        self.down = True


@pytest.fixture
def peer(tmp_path, monkeypatch):
    monkeypatch.setenv(peers.VARIABLE, str(fake_peer(tmp_path / "peers", "")))


@pytest.fixture
def comparing(qtbot, workbench, settings, tmp_path):
    """A window that compares."""
    workbench.database.path = tmp_path / "kernels.db"
    visits = NoVisits()
    made = StudioWindow(workbench, engine_label, settings, visits=visits)
    qtbot.addWidget(made, before_close_func=lambda w: finish(qtbot, workbench, w))
    made.show()
    return made
