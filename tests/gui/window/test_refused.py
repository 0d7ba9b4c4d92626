"""A model that cannot be imported is still shown, explained and run; hints are the window's."""

from __future__ import annotations

from pathlib import Path

import pytest
from verdicts import fake_peer

import nnjit_studio.analysis as analysis
import nnjit_studio.compiler as compiler
import nnjit_studio.engine as engine
import nnjit_studio.foreign_wasm as foreign_wasm
import nnjit_studio.workbench as workbench_room
from nnjit_studio.errors import ModelError, PageError, UnsupportedOpError, UserError
from nnjit_studio.model.survey import Obstacle
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.window_words import WORDS, in_window
from nnjit_studio.ui.verdict.panel import INSTALL
from nnjit_studio.verdict import peers


def steps(window):
    row = window.message.steps
    return {row.itemAt(i).widget().text(): row.itemAt(i).widget() for i in range(row.count())}


@pytest.fixture
def refusing(window, workbench, tmp_path, monkeypatch):
    """A window that can open pages for a job, and whose importer refuses every model."""
    monkeypatch.setenv(peers.VARIABLE, str(fake_peer(tmp_path / "peers", "")))
    workbench.database.path = tmp_path / "kernels.db"
    workbench.open_error = UnsupportedOpError("The operator Fancy is not supported.", "Replace it.")
    window.host.visits = object()
    return window


def refuse(qtbot, window, model_file):
    with qtbot.waitSignal(window.session.problem):
        assert window.open_model(model_file)
    return window.panel("refused")


def column(table, title):
    place = [c.title for c in table.model.columns].index(title)
    return [table.model.index(i, place).data() for i in range(table.model.rowCount())]


def test_a_refused_model_runs_in_onnx_runtime_web(qtbot, refusing, workbench, model_file):
    panel = refuse(qtbot, refusing, model_file)
    qtbot.waitUntil(lambda: panel.functions.model.rowCount() == 1)
    assert bool(refusing.graph.view.boxes) and not refusing.welcome.page.isVisible()
    assert refusing.session.state.model is None
    assert "Fancy" in panel.why.text() and "Fancy" in refusing.message.text.text()
    ((refused, module),) = workbench.ran_refused
    assert module is None and refused.why == "The operator Fancy is not supported."
    assert panel.verdict.verdict.state == "peer alone" and panel.verdict.headline == "119 ms"
    assert column(panel.nodes, "node") == ["foo", "conv"]
    assert column(panel.nodes, "web ms") == ["30.000", "10.000"]
    assert column(panel.nodes, "native ms")[1] == "9.000"
    assert column(panel.nodes, "share") == ["75.0%", "25.0%"]
    assert column(panel.functions, "function") == ["7"]
    assert "Chromium 156" in panel.said[panel.functions].text()


def test_a_file_that_cannot_be_read_is_not_explained_by_the_one_before(
    qtbot, refusing, workbench, model_file
):
    refuse(qtbot, refusing, model_file)
    workbench.survey_error = ModelError("'other.onnx' is not an ONNX model.", "Export it again.")
    other = model_file.with_name("other.onnx")
    other.write_bytes(b"x")
    panel = refuse(qtbot, refusing, other)
    assert "other.onnx" in refusing.message.text.text() and "Fancy" in panel.why.text()


def test_operators_without_a_rule_are_looked_up_once_it_is_refused(
    qtbot, refusing, workbench, model_file
):
    workbench.refused_operators = (Obstacle("Fancy", ("one", "two"), "no rule in the importer"),)
    panel = refuse(qtbot, refusing, model_file)
    qtbot.waitUntil(lambda: column(panel.obstacles, "operator") == ["Fancy"])
    assert column(panel.obstacles, "such as") == ["one, two"]


def test_one_button_makes_onnx_runtime_faster(qtbot, refusing, workbench, model_file):
    panel = refuse(qtbot, refusing, model_file)
    qtbot.waitUntil(lambda: panel.functions.model.rowCount() == 1)
    panel.faster.click()
    qtbot.waitUntil(
        lambda: len(workbench.ran_refused) == 2 and panel.verdict.headline.startswith("1.50x")
    )
    assert workbench.ran_refused[1][1] == workbench.module
    assert panel.verdict.verdict.state == "faster" and "1.50x" in panel.verdict.headline
    assert column(panel.nodes, "turbo ms")[1] == "5.000"


def test_without_a_peer_the_panel_says_how_to_get_one(
    qtbot, refusing, workbench, model_file, tmp_path, monkeypatch
):
    monkeypatch.setattr(peers, "find_peer", lambda given=None: None)
    panel = refuse(qtbot, refusing, model_file)
    qtbot.waitUntil(lambda: panel.verdict.missing)
    assert panel.verdict.first.text() == INSTALL and panel.verdict.second.isVisibleTo(panel)
    assert not panel.faster.isEnabled()
    assert column(panel.nodes, "native ms") == ["9.000"]


def test_a_run_that_fails_is_told_where_it_is_read(qtbot, refusing, workbench, model_file):
    workbench.job_error = PageError("The page's process ended.")
    panel = refuse(qtbot, refusing, model_file)
    qtbot.waitUntil(lambda: "process ended" in panel.verdict.explanation.text())
    assert "Fancy" in refusing.message.text.text(), "the bar still says why"


def test_the_next_model_takes_the_place_of_the_refused_one(qtbot, refusing, workbench, model_file):
    panel = refuse(qtbot, refusing, model_file)
    qtbot.waitUntil(lambda: panel.functions.model.rowCount() == 1)
    workbench.open_error = None
    with qtbot.waitSignal(refusing.session.done):
        assert refusing.open_model(model_file)
    assert not panel.tabs.isVisibleTo(panel) and not panel.functions.model.rows


def test_a_window_without_pages_shows_what_stands_in_the_way(qtbot, window, workbench, model_file):
    workbench.open_error = UnsupportedOpError("The operator Fancy is not supported.", "Replace it.")
    panel = refuse(qtbot, window, model_file)
    assert set(steps(window)) == {"What stands in the way"}
    assert panel.tabs.isVisibleTo(panel) and not workbench.ran_refused


def test_a_cancelled_opening_offers_nothing(qtbot, window, workbench, model_file):
    workbench.open_error = UserError("Opening the model was cancelled.")
    with qtbot.waitSignal(window.session.problem):
        assert window.open_model(model_file)
    assert not steps(window) and window.welcome.page.isVisible()


def test_no_gpu_is_told_in_the_words_of_the_window(qtbot, window, workbench, model_file):
    with qtbot.waitSignal(window.session.done):
        window.open_model(model_file)
    workbench.job_error = UserError(
        "wgpu-native finds no GPU here, only llvmpipe, which is software.",
        "Install the GPU's Vulkan driver, or ask for software with --gpu software.",
    )
    with qtbot.waitSignal(window.session.problem):
        window.actions_by_id["faster"].trigger()
    said = window.message.text.text()
    assert "--" not in said and "choose “WebGPU, software” in the header" in said
    assert not window.session.busy and window.actions_by_id["faster"].isEnabled()
    assert window.header.phase.text() == "Ready to tune"


@pytest.mark.parametrize(("said", "_"), WORDS)
def test_every_hint_that_is_replaced_is_said_somewhere(said, _):
    named = (analysis, compiler, engine, foreign_wasm, workbench_room)
    rooms = (Path(next(iter(room.__path__))) for room in named)
    assert any(said in path.read_text() for room in rooms for path in room.rglob("*.py"))


def test_a_sentence_that_needs_an_option_is_left_out():
    assert in_window("It is so. Leave out --dim and --shape. Try again.") == "It is so. Try again."
    assert in_window("A -- B stays.") == "A -- B stays."
    problem = JobProblem("open", "It broke.", "Fix its sizes with --dim.")
    assert str(problem) == "It broke."
    assert "--dim" in problem.cause.hint, "a script's user has options"
