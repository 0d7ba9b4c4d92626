"""Long jobs of the Wasm dock: live sessions, loops for a GPU, speed beside the original, Stop."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import test_live_page
import tiny_runtime
import wasm_builder as build
from gui_window import wait_job
from onnx_models import save
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QPushButton

from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import TargetError
from nnjit_studio.foreign_wasm.live.events import Answers, Rated
from nnjit_studio.foreign_wasm.turbo.gate.gain import Gain
from nnjit_studio.foreign_wasm.turbo.speed.compare import compared
from nnjit_studio.foreign_wasm.turbo.speed.result import Compared
from nnjit_studio.records.gain import ModelGain
from nnjit_studio.support.stopping import ended_by_stop
from nnjit_studio.support.temporary import process_folder
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.profile.dock import profile_job
from nnjit_studio.ui.state.jobs import BESIDE
from nnjit_studio.ui.wasm import jobs
from nnjit_studio.ui.wasm.live_state import OWN, LiveState, name_of
from nnjit_studio.ui.wasm.turbo import STOPPED

pytestmark = pytest.mark.usefixtures("read_once")
PLANTED = Path(__file__).parents[1] / "offload" / "planted" / "planted-o3-simd.wasm"
A, B = (f"x0=8,y0={y0},r0=4,x1=8,y1={y0},r1=256,order=nm,pack=1" for y0 in (6, 5))


def shown(qtbot, window, file):
    assert window.dropped.drop([file])
    qtbot.waitUntil(lambda: window.wasm.survey is not None and not window.wasm.busy)
    return window.wasm


@pytest.fixture
def kernels(tmp_path):
    file = tmp_path / "kernels.wasm"
    file.write_bytes(build.module((build.products(8, 8),), {0: "gemm"}))
    return file


@pytest.fixture
def wasm(qtbot, window, kernels):
    return shown(qtbot, window, kernels)


@pytest.fixture
def dist(tmp_path):
    folder = tmp_path / "dist"
    shutil.copytree(Path(test_live_page.__file__).with_name("runtime"), folder)
    (folder / test_live_page.NAME).write_bytes(tiny_runtime.runtime())
    return folder


@pytest.fixture
def database(workbench, tmp_path):
    with KernelDatabase.open(tmp_path / "kernels.db") as opened:
        workbench.database = opened
        yield opened


@pytest.fixture
def live(qtbot, database, window, dist):
    """The tab with a runtime and a model, ready to start."""
    panel = shown(qtbot, window, dist / test_live_page.NAME).live
    window.wasm.tabs.setCurrentWidget(panel)
    qtbot.waitUntil(lambda: panel.runtime is not None)
    assert "2 kernels" in panel.said.text() and not panel.start_button.isEnabled()
    relu = onnx.helper.make_node("Relu", ["x"], ["y"])
    save(dist / "any.onnx", [relu], {"x": [64, 48]}, {"y": [64, 48]})
    panel.use(dist / "any.onnx")
    panel.engines.setCurrentText("chromium")
    panel.seconds.setValue(5)
    return panel


def browsers_left():
    return list(process_folder().glob("browser-*"))


# Stop


def sleeping(survey, name, unsafe, note):
    """A job that waits for a real process."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        try:  # Stop may come before there is anything to end
            note(f"waiting for {process.pid}")
            with ended_by_stop(process.kill):
                process.wait()
        finally:
            process.kill()
    raise AssertionError("the engine has ended")


def test_stop_ends_the_engine_of_a_measurement(qtbot, window, wasm, monkeypatch):
    monkeypatch.setattr(jobs, "compile_times", sleeping)
    turbo = wasm.turbo
    assert not turbo.stop_button.isEnabled()
    wasm.tabs.setCurrentWidget(turbo)
    turbo.compile_button.setFocus()
    turbo.compile_button.click()
    qtbot.waitUntil(lambda: "waiting for" in turbo.caption.text())
    assert turbo.busy and not turbo.compile_button.isEnabled()
    assert turbo.stop_button.hasFocus()  # and not the chooser of backends, to which it would pass
    QTest.keyClick(turbo.stop_button, Qt.Key.Key_Space)
    assert turbo.stop_button.text() == "Stopping…"
    qtbot.waitUntil(lambda: not turbo.busy)
    assert turbo.caption.text() == "Stopped; nothing was written."
    assert turbo.stop_button.text() == "Stop" and not turbo.stop_button.isEnabled()
    assert turbo.compile_button.isEnabled() and turbo.compile_button.hasFocus()
    assert "engine has ended" not in window.message.text.text()


def test_a_window_that_closes_ends_the_job(qtbot, window, wasm, monkeypatch):
    monkeypatch.setattr(jobs, "compile_times", sleeping)
    wasm.turbo.compile_button.click()
    qtbot.waitUntil(lambda: "waiting for" in wasm.turbo.caption.text())
    window.close()
    qtbot.waitUntil(lambda: not wasm.turbo.job.job)
    qtbot.waitUntil(lambda: not window.isVisible())


# Live


def test_another_file_is_told_what_it_lacks(qtbot, wasm):
    qtbot.waitUntil(lambda: "no kernel that can be exchanged" in wasm.live.said.text())
    assert wasm.live.said.objectName() == "bad"
    assert not wasm.live.start_button.isEnabled()


def test_the_open_model_can_be_served(qtbot, window, wasm, model_file):
    assert not wasm.live.open_button.isEnabled()
    wait_job(qtbot, window, "open", lambda: window.session.open(model_file))
    qtbot.waitUntil(lambda: wasm.live.open_button.isEnabled())
    wasm.live.open_button.click()
    assert wasm.live.model_name.text() == "Model: tiny.onnx"


@pytest.mark.chromium
def test_a_session_is_shown_and_remembered(qtbot, window, database, live, tmp_path):
    live.start_button.click()
    assert not live.start_button.isEnabled()
    qtbot.waitUntil(lambda: not live.job.job)
    assert live.said.objectName() == "muted", live.said.text()
    assert not live.card.isHidden() and live.worth.text()
    state = live.state
    assert state.answers.runs > 10 and state.answers.wrong == 0
    assert "none wrong" in live.facts.text()
    assert state.committed == database.count()
    assert len(state.rounds) == len(live.plot.items["ONNX Runtime"][0].data) > 3
    table = live.table
    assert len(table.model.rows) > 10
    assert sum(row.state == "incumbent" for row in table.model.rows) == 1
    table.export_csv(tmp_path / "candidates.csv")
    assert "speed-up" in (tmp_path / "candidates.csv").read_text()
    assert not browsers_left()


@pytest.mark.chromium
def test_a_session_that_is_stopped_leaves_no_browser(qtbot, window, live):
    live.seconds.setValue(600)
    live.start_button.click()
    qtbot.waitUntil(lambda: len(live.state.rounds) > 1)
    assert browsers_left()
    live.stop_button.click()
    qtbot.waitUntil(lambda: not live.job.job)
    assert live.said.text().startswith("Stopped; the browser is closed.")
    assert not browsers_left()
    assert live.start_button.isEnabled()


def test_what_a_session_tells_becomes_rows_and_sentences():
    state = LiveState()
    for event in (
        ev.SessionStarted(0.0, "m", ("w",), {"target": "firefox", "threads": 2}),
        Answers(0.1, 3, 0, 0.0, 10.0),
        ev.SpaceBuilt(0.2, "w", (A, B), ("", ""), 9, 0),
        ev.Trying(0.3, "w", A, "check"),
    ):
        state.take(event)
    assert state.phase == "Proving 6x8, unroll 4"
    assert [r.state for r in state.shown_rows()] == ["incumbent", "measuring", "not tried"]
    for event in (
        Answers(0.4, 4, 0, 0.0, 9.0),
        Rated(0.5, {"default": 11.0, A: 22.0}),
        ev.Measured(0.6, "w", B, "wrong", "2 of 80 cases differ", 0.0, 0.0),
        ev.Swapped(0.7, "w", A, 10.0, 15.0),
        ev.Measured(0.8, "w", A, "won", "", 15.0, 2.0, (2.0,), 1.5, 1.4, 1.6),
        Answers(0.9, 20, 0, 0.0),
        ev.RoundDone(1.0, "w", 1, A, 15.0, 15.0, A, 0),
    ):
        state.take(event)
    own, winner, wrong = state.shown_rows()
    assert (own.state, winner.state, wrong.state) == ("default", "incumbent", "wrong")
    assert (winner.alone, winner.gflops, winner.against) == (22.0, 15.0, OWN)
    assert wrong.why == "2 of 80 cases differ"
    assert [(p.gflops, p.best_gflops) for p in state.rounds] == [(10, 10), (9, 9.5), (15, 15)]
    assert "1 swap." in state.facts(True) and "20 answers compared, none wrong" in state.facts(True)
    assert state.facts(False).startswith(f"Served at the end: {name_of(A)}")
    assert state.result() == ""
    gain = ModelGain("faster", 1.5, 1.45, 1.55, 12)
    ms = {"before": 90.0, "after": 60.0}
    state.take(ev.Finished(2.0, "time", "m", ms, {}, 0.7, (), {}, gain=gain))
    assert "90.0 ms" in state.result() and "1.50x (1.45 to 1.55)" in state.result()
    assert state.remembered("").endswith(
        f"The next session of this model in firefox with 2 threads begins with {name_of(A)}."
    )
    assert "not kept: no room" in state.remembered("no room")


def test_a_kernel_that_has_not_won_is_not_remembered():
    state = LiveState()
    for event in (
        ev.SpaceBuilt(0.2, "w", (A,), ("",), 9, 0),
        ev.Swapped(0.7, "w", A, 10.0, 15.0),
        ev.Measured(0.8, "w", A, "not told apart", "", 15.0, 2.0, (2.0,), 1.5, 0.6, 3.1),
    ):
        state.take(event)
    said = "1 result in the kernel database. No kernel has won, so the next session begins anew."
    assert state.serving == A and state.remembered("") == said


# Speed beside the original


def test_a_comparison_fills_its_table(qtbot, window, wasm, monkeypatch, tmp_path):
    rows = [
        Compared("row", "chromium", "plain", 2.0, 1.0, Gain(2.0, 1.9, 2.1), 0.0),
        Compared("row", "firefox", problem="It did not start."),
    ]
    monkeypatch.setattr(jobs, "compare_speed", lambda *given: iter(rows))
    speed = wasm.turbo.speed
    assert speed.isHidden()
    speed.show_made(wasm.survey.path, {"plain": tmp_path / "new.wasm"})
    assert speed.cases.count() > 5 and speed.cases.itemText(0) == "matmul-384x768x768"
    speed.start_button.click()
    qtbot.waitUntil(lambda: not speed.job.job)
    assert speed.model.rows == rows and "All cases" in speed.said.text()
    speed.copy()
    copied = QGuiApplication.clipboard().text()
    assert "2.00\u00d7 (1.90 to 2.10)" in copied and "identical" in copied
    assert "It did not start." in copied


def test_a_place_that_fails_ends_no_other(tmp_path):
    for name in ("ort-wasm-simd-threaded.wasm", "ort-wasm-simd-threaded.mjs", "ort.wasm.min.mjs"):
        (tmp_path / name).write_bytes(b"")

    def broken(server, page):
        raise TargetError("It is not there.")

    module = tmp_path / "ort-wasm-simd-threaded.wasm"
    places = {"one": broken, "two": broken}
    found = list(compared(module, {"new": module}, ["row-768x3072"], places, tmp_path))
    assert [(r.place, r.problem) for r in found] == [
        ("one", "It is not there."), ("two", "It is not there."),
    ]  # fmt: skip


def test_a_module_of_no_library_is_told_in_the_tab(qtbot, window, wasm, tmp_path):
    speed = wasm.turbo.speed
    speed.show_made(wasm.survey.path, {"plain": tmp_path / "new.wasm"})
    speed.start_button.click()
    qtbot.waitUntil(lambda: not speed.job.job)
    assert "dist folder" in speed.said.text() and "--check" not in speed.said.text()


# Offload


@pytest.mark.chromium
def test_loops_are_found_filtered_and_priced(qtbot, window):
    offload = shown(qtbot, window, PLANTED).offload
    window.wasm.tabs.setCurrentWidget(offload)
    assert not offload.measure_button.isEnabled()
    offload.find_button.click()
    qtbot.waitUntil(lambda: not offload.job.job)
    everything = len(offload.model.rows)
    assert "can run on a GPU" in offload.said.text() and everything > 40
    offload.only.click()
    good = len(offload.model.rows)
    assert 30 < good < everything
    offload.filter.setText("gemv")
    assert 0 < offload.model.rowCount() < good
    offload.copy()
    assert "gemv" in QGuiApplication.clipboard().text()
    offload.filter.clear()
    keep = [loop for loop in offload.found if loop.told["name"] in ("dot_start", "gemv_bias_relu")]
    offload.found, offload._told = keep, [loop.told for loop in keep]
    offload.engines.setCurrentText("chromium")
    offload.adapters.setCurrentText("software adapter")
    offload.measure_button.click()
    qtbot.waitUntil(lambda: not offload.job.job)
    assert "software adapter: its times say nothing" in offload.said.text(), offload.said.text()
    assert "offload_success_total" in offload.counters.toPlainText()
    assert all(row["price"] for row in offload.model.rows)
    assert any(row["verdict"] == "stays" for row in offload.model.rows)
    offload.filter.setText("but stays")
    assert offload.model.shown


def test_looking_for_loops_can_be_stopped(qtbot, window):
    offload = shown(qtbot, window, PLANTED).offload
    offload.find_button.click()
    offload.job.cancel()
    qtbot.waitUntil(lambda: not offload.job.job)
    assert offload.said.text() == "Stopped." and offload.model.rows == []
    assert not window.findChildren(QMessageBox)


def test_a_model_is_not_measured_while_a_file_is(
    qtbot, comparing, workbench, model_file, kernels, monkeypatch
):
    """Both would run on the same cores: the figures of each were wrong."""
    window, wasm = comparing, shown(qtbot, comparing, kernels)
    monkeypatch.setattr(jobs, "compile_times", sleeping)
    wasm.turbo.compile_button.click()
    qtbot.waitUntil(lambda: "waiting for" in wasm.turbo.caption.text())
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    assert not window.session.run(profile_job())  # as the buttons of the docks do
    assert window.message.text.text() == f"{BESIDE} Stop it, or wait until it has ended."
    window.actions_by_id["tune"].trigger()
    qtbot.wait(200)
    assert not (workbench.tuned_seconds or workbench.profiled or workbench.verdicts_begun)
    assert window.message.text.text() == BESIDE
    (button,) = (b for b in window.message.findChildren(QPushButton) if b.text().startswith("Stop"))
    assert button.text() == "Stop and start tuning"
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda job, _: job == "tune"):
        button.click()
    assert wasm.turbo.caption.text() == STOPPED and workbench.tuned_seconds


def test_a_file_is_not_measured_while_the_model_is_tuned(
    qtbot, window, workbench, wasm, model_file
):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    workbench.hold = True
    assert window.start_tuning()
    qtbot.waitUntil(lambda: workbench.tuned_seconds != [])
    wasm.turbo.compile_button.click()
    assert not wasm.turbo.busy
    assert window.message.text.text().startswith("Tuning is running: stop it or wait")
    workbench.release.set()


def test_a_verdict_gives_way_to_a_file_that_is_measured(
    qtbot, comparing, workbench, model_file, kernels, monkeypatch
):
    window, wasm = comparing, shown(qtbot, comparing, kernels)
    monkeypatch.setattr(jobs, "compile_times", sleeping)
    workbench.hold_verdict = True
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    qtbot.waitUntil(lambda: workbench.verdicts_begun > 0)
    begun = workbench.verdicts_begun
    wasm.turbo.compile_button.click()
    qtbot.waitUntil(lambda: not window.session.running)
    assert workbench.verdicts_begun == begun and not window.verdict.resting
    workbench.hold_verdict = False
    with qtbot.waitSignal(window.verdict.rested):
        wasm.turbo.stop_button.click()
