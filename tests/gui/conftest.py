"""Every GUI test runs offscreen, with settings of its own."""

from __future__ import annotations

import gc
import os

os.environ["QT_QPA_PLATFORM"] = "offscreen"

import pytest
from gui_fakes import FakeWorkbench, engine_label, finish, small_model
from PySide6.QtCore import QSettings

from nnjit_studio.ui.main_window import StudioWindow


@pytest.fixture(autouse=True, scope="module")
def collected_here():
    """As in the program: widgets that are garbage die on Qt's thread, not in some other."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.fixture(autouse=True)
def collected(collected_here):
    yield
    gc.collect()


@pytest.fixture
def settings(tmp_path):
    return QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def workbench():
    bench = FakeWorkbench(small_model())
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
