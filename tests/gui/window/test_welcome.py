"""The welcome page: what it shows of the machine, and its way to a first model."""

import datetime
from dataclasses import replace
from unittest.mock import Mock

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton
from verdicts import FASTER, NO_PEER, SAME

from nnjit_studio.doctor import examination
from nnjit_studio.doctor.checks import Check
from nnjit_studio.errors import BugError, ModelError, TargetError, UserError
from nnjit_studio.samples import first
from nnjit_studio.ui.window.welcome import (
    EXAMINES,
    FAILED,
    GAVE_WAY,
    STOPPED,
    measured_day,
    result_text,
)


@pytest.fixture(autouse=True)
def no_browsers(monkeypatch):
    monkeypatch.setattr(examination.browsers, "find_all", lambda: ())


@pytest.fixture
def sample(monkeypatch, model_file):
    written = []

    def write(phase, name=""):
        written.append(name)
        return model_file

    monkeypatch.setattr(first, "sample_model", write)
    return written


def wait_job(qtbot, window, job, start):
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda name, _: name == job):
        start()


def test_the_machine_is_looked_at_and_told_line_by_line(qtbot, window):
    assert window.welcome.page.isVisible()
    wait_job(qtbot, window, "examine", window.welcome.begin)
    lines = window.welcome.page.as_text().splitlines()
    assert lines[0].startswith("✗ Engine: simd128, not cross-origin isolated")
    assert lines[1].startswith("✓ One thread: 40 GFLOP/s")
    assert any(line.startswith("! Sandbox: off") for line in lines)
    assert any(line.startswith("! Browsers: none found") for line in lines)


def test_a_click_on_the_sample_opens_and_profiles_it(qtbot, window, sample):
    window.first_run.on = True
    wait_job(
        qtbot, window, "profile",
        lambda: QTest.mouseClick(window.welcome.page.sample_button, Qt.MouseButton.LeftButton),
    )  # fmt: skip
    assert sample == [""] and window.session.state.model is not None
    assert not window.welcome.page.isVisible()
    assert window.profile.findings.buttons


def test_a_model_does_not_wait_for_the_look_at_a_busy_machine(
    qtbot, window, workbench, sample, model_file
):
    workbench.hold = True  # the page does not come
    window.welcome.begin()
    assert window.actions_by_id["open"].isEnabled()
    wait_job(qtbot, window, "open", lambda: window.dropped.drop([model_file]))
    assert window.session.state.model.path == model_file
    assert not sample


def test_a_model_waits_for_an_examination_that_was_asked_for(qtbot, window, workbench, model_file):
    workbench.hold = True
    window.welcome.examine()
    assert window.open_model(model_file)
    assert window.session.state.model is None
    wait_job(qtbot, window, "open", workbench.release.set)
    assert window.session.state.model.path == model_file


def test_a_sample_that_cannot_be_opened_leads_back(qtbot, window, workbench, sample):
    workbench.open_error = TargetError("The page is gone.", "Start again.")
    with qtbot.waitSignal(window.session.problem):
        window.welcome.open_sample()
    assert window.welcome.page.isVisible()
    assert "The page is gone. Start again." in window.message.text.text()
    workbench.open_error = None
    wait_job(qtbot, window, "open", window.welcome.open_sample)


def test_recent_models_that_are_there_have_a_button(qtbot, window, model_file, tmp_path):
    window.welcome.page.show_recent([(tmp_path / "gone.onnx", ""), (model_file, "")])
    names = {
        b.accessibleName()
        for b in window.welcome.page.findChildren(type(window.welcome.page.open_button))
    }
    assert "Open tiny.onnx" in names and "Open gone.onnx" not in names


def test_a_check_has_its_next_step(window):
    window.welcome.page.show_checks([Check("Disk", "bad", "0.1 GiB free", "Free some.")])
    assert window.welcome.page.as_text() == "✗ Disk: 0.1 GiB free. Free some."


def test_a_model_to_be_made_faster_is_chosen_opened_and_advised(
    qtbot, window, model_file, monkeypatch
):
    asked = []
    monkeypatch.setattr("nnjit_studio.ui.commands.dialogs.ask_file", lambda *a: a[-1](model_file))
    window.actions_by_id["advise"].triggered.connect(lambda: asked.append("advise"))
    page = window.welcome.page
    wait_job(qtbot, window, "open", page.open_button.click)
    window.verdict.rested.emit()
    qtbot.wait(20)
    assert not asked  # it was only opened
    wait_job(qtbot, window, "open", page.faster_button.click)
    window.verdict.rested.emit()
    qtbot.waitUntil(lambda: asked == ["advise"])


def test_no_dashes_are_shown_where_nothing_was_measured(window):
    assert not window.header.figures.isVisible()


def test_each_sample_is_an_entry_of_its_own(qtbot, window, sample):
    names = first.sample_names()
    assert len(names) >= 2 and names[0] == first.sample_name()
    wanted = next(
        b for b in window.welcome.page.findChildren(QPushButton)
        if b.accessibleName() == f"Open {names[-1]}"
    )  # fmt: skip
    wait_job(qtbot, window, "open", wanted.click)
    assert sample == [names[-1]]


def test_a_recent_model_tells_its_ratio_time_and_day(qtbot, window, model_file):
    path = str(model_file)
    today = datetime.datetime.now(datetime.UTC).isoformat()
    verdict = replace(FASTER, path=path, created=today)
    page = window.welcome.page
    page.show_recent([(model_file, "yesterday")], {path: verdict})
    told = next(x for x in page.findChildren(QLabel) if "ONNX Runtime Web," in x.text())
    assert (
        told.text() == "1.99x as fast as ONNX Runtime Web, 59.6 ms"
        and told.toolTip() == "Measured today"
    )
    assert result_text(SAME) == "Not told apart, 59.6 ms"
    assert result_text(NO_PEER) == "59.6 ms [58.9..60.4]", "nothing is said twice"
    assert measured_day(FASTER) == "22 Nov 2026"


def test_an_examination_that_gave_way_says_so_and_is_made_when_idle(
    qtbot, window, workbench, model_file
):
    page = window.welcome.page
    labels = lambda: [label.text() for label in page.findChildren(QLabel)]  # noqa: E731
    workbench.hold = True
    window.welcome.begin()
    qtbot.waitUntil(lambda: window.session.worker.job == "examine")
    assert EXAMINES in labels()
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    assert GAVE_WAY in labels() and not page.as_text()
    workbench.hold = False
    qtbot.waitUntil(lambda: "Engine" in page.as_text())
    qtbot.waitUntil(lambda: GAVE_WAY not in labels())  # Qt deletes the label a turn later


@pytest.mark.parametrize(
    ("error", "words"),
    [(BugError("Broken."), FAILED), (UserError("Examining the machine was cancelled."), STOPPED)],
)
def test_an_examination_that_failed_is_not_announced_any_more(
    qtbot, window, monkeypatch, error, words
):
    monkeypatch.setattr("nnjit_studio.ui.window.welcome_flow.examine", Mock(side_effect=error))
    with qtbot.waitSignal(window.session.problem):
        window.welcome.begin()
    labels = lambda: [label.text() for label in window.welcome.page.findChildren(QLabel)]  # noqa: E731
    qtbot.waitUntil(lambda: words in labels() and EXAMINES not in labels())


def test_a_start_with_a_file_that_is_no_model_examines_the_machine(
    qtbot, window, workbench, model_file
):
    """The page said for ever that the machine is examined first."""
    workbench.survey_error = ModelError("'tiny.onnx' is not an ONNX model.", "Export it again.")
    with qtbot.waitSignal(window.session.problem):
        window.open_model(model_file)
    qtbot.waitUntil(lambda: "✓" in window.welcome.page.as_text())


def test_nothing_of_the_stage_is_seen_behind_the_scroll_bar(qtbot, window):
    """Scraps of the docks stood there: a scroll bar draws no ground."""
    page = window.welcome.page
    window.resize(1280, 560)
    qtbot.waitUntil(lambda: page.verticalScrollBar().isVisible())
    bar = page.verticalScrollBar()
    below = bar.mapTo(window, bar.rect().bottomRight())
    shot = window.grab().toImage()
    edge = {shot.pixelColor(below.x(), below.y() - y).name() for y in range(bar.height())}
    assert edge == {window.themes.current.surface}
