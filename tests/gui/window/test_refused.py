"""A model that cannot be imported is still shown, explained and run; hints are the window's."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnjit_studio.analysis as analysis
import nnjit_studio.compiler as compiler
import nnjit_studio.engine as engine
import nnjit_studio.workbench as workbench_room
from nnjit_studio.errors import UnsupportedOpError, UserError
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.window_words import WORDS, in_window


def steps(window):
    row = window.message.steps
    return {row.itemAt(i).widget().text(): row.itemAt(i).widget() for i in range(row.count())}


def test_a_refused_model_keeps_its_graph_and_runs_natively(qtbot, window, workbench, model_file):
    workbench.open_error = UnsupportedOpError("The operator Fancy is not supported.", "Replace it.")
    with qtbot.waitSignal(window.session.problem):
        assert window.open_model(model_file)
    qtbot.waitUntil(lambda: bool(window.graph.view.boxes))
    assert not window.welcome.page.isVisible() and window.session.state.model is None
    assert "Fancy" in window.message.text.text()
    assert set(steps(window)) == {"What stands in the way", "Run it in ONNX Runtime"}
    with qtbot.waitSignal(window.session.done):
        steps(window)["Run it in ONNX Runtime"].click()
    assert workbench.ran_natively
    dialog = window.refused.dialog
    assert dialog.isVisible() and "Fancy" in dialog.summary.text()
    assert [dialog.nodes.item(0, i).text() for i in range(4)] == [
        "conv",
        "Conv",
        "9.000",
        "100.0 %",
    ]


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
    named = (analysis, compiler, engine, workbench_room)
    rooms = (Path(next(iter(room.__path__))) for room in named)
    assert any(said in path.read_text() for room in rooms for path in room.rglob("*.py"))


def test_a_sentence_that_needs_an_option_is_left_out():
    assert in_window("It is so. Leave out --dim and --shape. Try again.") == "It is so. Try again."
    assert in_window("A -- B stays.") == "A -- B stays."
    problem = JobProblem("open", "It broke.", "Fix its sizes with --dim.")
    assert str(problem) == "It broke."
    assert "--dim" in problem.cause.hint, "a script's user has options"
