"""Scripted runs of the window."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from gui_fakes import engine_label
from PySide6.QtGui import QImage

from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.tuner.events import Finished
from nnjit_studio.ui.startup import app
from nnjit_studio.ui.startup import immortal_constants as singletons
from nnjit_studio.ui.startup.app import Script, run_studio
from nnjit_studio.ui.startup.garbage_collector import GarbageCollector


def script(workbench, model, **changed):
    steps = replace(Script(model, tune_seconds=3.0, quit_when_done=True), **changed)
    return run_studio(workbench, steps, engine_label)


def test_a_script_opens_tunes_takes_a_picture_and_leaves(qapp, workbench, model_file, tmp_path):
    picture = tmp_path / "new" / "window.png"
    events = script(workbench, model_file, screenshot=picture)
    assert [e for e in events if isinstance(e, Finished)]
    assert len(events) == len(workbench.script) and workbench.tuned_seconds == [3.0]
    image = QImage(str(picture))
    assert (image.width(), image.height()) == (1600, 1000)


def test_a_script_without_tuning_leaves_after_opening(qapp, workbench, model_file):
    assert script(workbench, model_file, tune_seconds=None) == []
    assert workbench.tuned_seconds == []


def test_a_script_raises_what_failed(qapp, workbench, model_file, tmp_path):
    workbench.tune_error = UserError("The page went away.", "Start again.")
    with pytest.raises(UserError, match="The page went away"):
        script(workbench, model_file)
    workbench.open_error = ModelError("It is not valid.", "Export it again.")
    with pytest.raises(UserError, match="It is not valid"):
        script(workbench, model_file)
    with pytest.raises(UserError, match=r"There is no gone\.onnx in "):
        script(workbench, tmp_path / "gone.onnx")
    with pytest.raises(UserError, match=r"window\.jpeg2 could not be written"):
        workbench.open_error = workbench.tune_error = None
        (tmp_path / "window.jpeg2").mkdir()
        script(workbench, model_file, screenshot=tmp_path / "window.jpeg2")


def test_a_picture_in_an_impossible_folder_ends_the_script_too(
    qapp, workbench, model_file, tmp_path
):
    with pytest.raises(UserError, match="could not be written"):
        script(workbench, model_file, screenshot=model_file / "window.png")


def test_the_first_picture_waits_for_no_view(qapp, workbench, monkeypatch):
    """A model and the views of docks come after it."""
    before = []
    painted = app._FirstPicture._painted

    def look(picture):
        docks = picture.parent().docks
        before.append({key for key, dock in docks.items() if dock.made is not None})
        painted(picture)

    monkeypatch.setattr(app._FirstPicture, "_painted", look)
    script(workbench, None, tune_seconds=None)
    assert before == [{"tuning"}]  # which knows the budget


def test_a_window_that_nobody_sees_begins_too(qapp, workbench, model_file, monkeypatch):
    monkeypatch.setattr(app._FirstPicture, "eventFilter", lambda *_: False)
    monkeypatch.setattr(app, "UNSEEN_MS", 20)
    script(workbench, model_file)
    assert workbench.tuned_seconds == [3.0]


def test_the_first_picture_needs_no_library_of_views_and_jobs():
    """They took a fifth of the time to it."""
    code = """
        import sys
        import nnjit_studio.cli.studio
        import nnjit_studio.ui.page.host
        import nnjit_studio.ui.page.visits
        import nnjit_studio.ui.startup.app
        print(*sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    loaded = set(subprocess.run(command, capture_output=True, text=True).stdout.split())
    assert "nnjit_studio.ui.window.main_window" in loaded
    later = {"pyqtgraph", "onnx", "scipy", "jinja2", "httpx2", "segno", "cryptography.x509", "tvm",
             "nnjit_studio.ui.wasm.dock", "nnjit_studio.foreign_wasm.turbo.job"}  # fmt: skip
    assert loaded.isdisjoint(later)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python's constants are immortal")
def test_what_was_loaded_is_not_looked_through_for_garbage(qapp):
    held = [[]]
    collector = GarbageCollector()
    collector.stop()
    assert not any(kept is held for kept in gc.get_objects())


def test_none_outlives_more_qt_calls_than_it_has_references():
    """Without the loan of references this aborts the interpreter."""
    code = """
        import sys
        import nnjit_studio.ui
        from PySide6.QtGui import QPainterPath
        path = QPainterPath()
        for _ in range(200_000):
            path.moveTo(0.0, 0.0)
        print(sys.getrefcount(None) > 10**6)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr
    assert singletons.LENT > 10**9


@pytest.mark.embedded
def test_the_picture_shows_the_page(tmp_path):
    """The web view's content is in the grabbed window, not a blank."""
    picture, model = tmp_path / "window.png", tmp_path / "tiny.onnx"
    model.write_bytes(b"")
    tests = Path(__file__).parents[2]
    folders = (tests / "gui", tests, tests / "helpers")
    code = f"""
        import http.server, sys, threading
        sys.path[:0] = {[str(folder) for folder in folders]!r}
        from pathlib import Path
        from nnjit_studio.ui.page.host import EngineView
        from nnjit_studio.ui.startup.app import Script, run_studio
        from gui_fakes import FakeWorkbench, small_model
        from waiting import PATIENCE_S

        HTML = (
            b"<body style='background:#12ab34'><script>const next = requestAnimationFrame;"
            b"next(() => next(() => fetch('/drawn')))</script>"
        )
        drawn = threading.Event()

        class Workbench(FakeWorkbench):
            def start(self, seconds=None, **given):
                assert drawn.wait(PATIENCE_S)
                yield from super().start(seconds, **given)

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(HTML)
                if self.path == "/drawn":
                    drawn.set()
            def log_message(self, *words): pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        bench = Workbench(small_model())
        bench.url = f"http://127.0.0.1:{{server.server_port}}/"
        script = Script(Path({str(model)!r}), 1.0, Path({str(picture)!r}), True)
        run_studio(bench, script, EngineView)
    """
    env = os.environ | {
        "QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_CHROMIUM_FLAGS": "--disable-gpu --no-sandbox",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    image = QImage(str(picture))
    green = sum(
        image.pixelColor(x, y).name() == "#12ab34"
        for x in range(0, image.width(), 20)
        for y in range(0, image.height(), 20)
    )
    assert green > 100
