"""Wasm or WebGPU in the window: chosen, kept, refused, fallen back from, and compared."""

from __future__ import annotations

import dataclasses

import pytest
from gui_fakes import FakeWorkbench, engine_label, finish, small_model
from gui_window import StudioWindow

from nnjit_studio.errors import TargetError
from nnjit_studio.records.backend import WASM
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.tuning.space import COLUMNS
from nnjit_studio.ui.window.backend_choice import CHOICES

GPU_SETTINGS = "x0=4,y0=8,r0=4,x1=64,y1=64,r1=16,split=2,vec=4"


@pytest.fixture
def opened(qtbot, window, model_file):
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    return window


def choose(qtbot, window, index, signal="done"):
    with qtbot.waitSignal(getattr(window.session, signal)):
        window.backend.chooser.setCurrentIndex(index)
        window.backend.chooser.activated.emit(index)


def test_a_choice_runs_names_the_adapter_and_is_kept(
    qtbot, opened, workbench, settings, model_file
):
    assert opened.backend.chooser.currentText() == "Wasm"
    choose(qtbot, opened, 1)
    assert workbench.backends == [CHOICES[1][1]]
    assert opened.backend.chooser.toolTip() == "Kernels run on Some GPU"
    settings.sync()
    other = FakeWorkbench(small_model())
    again = StudioWindow(other, engine_label, settings)
    qtbot.addWidget(again, before_close_func=lambda w: finish(qtbot, other, w))
    assert other.backend == CHOICES[1][1] and other.backends == []
    assert again.backend.chooser.currentText() == "WebGPU"


def test_a_backend_that_runs_other_steps_shows_them(qtbot, opened, workbench):
    shown = opened.session.state.model
    choose(qtbot, opened, 1)
    assert opened.session.state.model is shown
    steps = shown.plan.steps[:-1]
    workbench.model = dataclasses.replace(shown, plan=dataclasses.replace(shown.plan, steps=steps))
    choose(qtbot, opened, 0)
    assert opened.session.state.model is workbench.model


def test_a_choice_that_fails_is_told_and_taken_back(qtbot, opened, workbench, settings):
    workbench.job_error = TargetError("The only adapter is llvmpipe.", "Use software.")
    choose(qtbot, opened, 1, "problem")
    assert opened.backend.chooser.currentText() == "Wasm"
    assert "llvmpipe" in opened.message.text.text()
    assert settings.value("backend") is None


def test_no_choice_while_something_runs(qtbot, opened, workbench):
    workbench.hold = True
    opened.start_tuning(1.0)
    assert not opened.backend.chooser.isEnabled()
    assert not opened.backend.choose(1)
    assert opened.backend.chooser.currentText() == "Wasm"
    with qtbot.waitSignal(opened.session.done):
        workbench.release.set()
    assert opened.backend.chooser.isEnabled()


def test_a_gpu_that_was_given_up_is_told_and_the_choice_follows(qtbot, opened, workbench):
    choose(qtbot, opened, 1)
    error = {"ok": False, "kind": "bug", "error": "The GPU was lost 4 times.", "hint": ""}
    workbench.script = [
        ev.FellBack(0.5, "The GPU was lost 4 times.", "embedded"),
        ev.Failed(0.5, error),
    ]
    workbench.backend = WASM
    opened.start_tuning(1.0)
    qtbot.waitUntil(lambda: opened.message.isVisible() and not opened.session.busy)
    said = opened.message.text.text()
    assert "lost 4 times" in said and "runs in Wasm now" in said
    assert opened.backend.chooser.currentText() == "Wasm"


def test_f8_says_which_is_faster_and_why(qtbot, opened):
    assert "F8" in opened.faster.nothing.words.text()
    with qtbot.waitSignal(opened.session.done):
        opened.actions_by_id["faster"].trigger()
    assert opened.faster.caption.text().startswith("Wasm is 4.0x as fast here")
    assert "the transfers" in opened.faster.answer.text()
    assert len(opened.faster.model.rows) == 4
    assert opened.docks["faster"].seen


def test_the_lite_space_shows_the_settings_of_its_backend(qtbot, opened, workbench):
    titles = [c.title for c in COLUMNS]

    def hidden(name):
        return opened.space.view.isColumnHidden(titles.index(name))

    key = opened.session.state.by_share()[0].workload.key
    target = {"target": "embedded+wgpu", "gpu": {"vendor": "x"}, "adapter": "Some GPU"}
    workbench.script = [
        ev.SessionStarted(0.0, "tiny", (key,), target),
        ev.SpaceBuilt(0.1, key, (GPU_SETTINGS,), ("fits",), 1000, 0),
        ev.Swapped(0.2, key, GPU_SETTINGS, 1.0, 2.0),
    ]
    with qtbot.waitSignal(opened.session.done):
        opened.start_tuning(1.0)
    opened.session.select(key)
    assert hidden("order") and hidden("pack") and not hidden("split") and not hidden("vec")
    row = opened.space.model.rows[0]
    shown = {c.title: c.text(c.value(row)) for c in COLUMNS}
    assert (shown["x1"], shown["split"], shown["vec"]) == ("64", "2", "4")
    assert "Some GPU" in opened.header.detail.text() or "Some GPU" in opened.session.state.target
    assert opened.session.state.code == "WGSL"
    assert opened.session.state.workloads[key].incumbent == GPU_SETTINGS
