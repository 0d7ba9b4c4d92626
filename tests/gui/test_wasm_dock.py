"""The dock of a Wasm file: dropped, shown, filtered, compared, coloured, exported."""

from __future__ import annotations

from dataclasses import replace

import pytest
import wasm_builder as build

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.startup.app import Script, _ScriptRun
from nnjit_studio.ui.wasm.layout import Box, squarified

pytestmark = pytest.mark.usefixtures("read_once")
BODIES = (build.products(8, 8), build.ifs(10, 4), build.nops(100_500))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.wasm"
    path.write_bytes(build.module(BODIES, {0: "gemm"}))
    return path


@pytest.fixture
def shown(qtbot, window, file):
    assert window.dropped.drop([file])
    qtbot.waitUntil(lambda: window.wasm.survey is not None and not window.wasm.busy)
    return window.wasm


def indices(panel):
    return [row.facts.index for row in panel.functions.model.shown]


def test_before_a_file_the_dock_says_what_to_do(window):
    assert "Drop a .wasm" in window.wasm.caption.text()
    assert not window.wasm.compare_button.isEnabled() and not window.wasm.trace_button.isEnabled()
    assert window.wasm.parts.isHidden()


def test_the_header_names_the_file_until_a_model_is_open(qtbot, window, shown, model_file):
    """It said that there was no model, and to drop one."""
    header = window.header
    assert header.model.text() == "kernels.wasm" and header.model.tip.endswith("kernels.wasm")
    assert "3 functions" in header.details.text()
    assert "no model is open" in header.details.text()
    window.session.abandoned.emit()
    assert header.model.text() == "kernels.wasm"
    window.open_model(model_file)
    qtbot.waitUntil(lambda: header.model.text() == "tiny.onnx")
    shown.show_survey(shown.survey)
    assert header.model.text() == "tiny.onnx" and "fused" in header.details.text()


def test_a_dropped_file_fills_the_dock(window, shown):
    assert "3 functions" in shown.caption.text()
    assert indices(shown) == [2, 0, 1]
    assert [w.rule for w in shown.findings.model.rows] == ["large-body", "vector-spills"]
    assert shown.tabs.tabToolTip(0) == "3 functions"
    assert [n for n, dock in window.docks.items() if not dock.isHidden()] == ["wasm"]
    assert "Called by" not in shown.details.text()


@pytest.mark.parametrize("tunes", [False, True])
def test_a_file_of_the_command_line_is_shown(qtbot, window, file, tunes):
    """Where the line asks for work on a model, it is refused."""
    run = _ScriptRun(window, Script(file, 1.0 if tunes else None))
    run.begin()
    assert bool(run.error) == tunes
    if tunes:
        assert "give a file that ends in .onnx" in window.message.text.text()
    else:
        qtbot.waitUntil(lambda: window.wasm.survey is not None)


def test_nothing_changes_before_a_file_is_chosen(qtbot, window, file, monkeypatch):
    """The welcome page gave way to docks without content."""
    asked = []
    monkeypatch.setattr(dialogs, "ask_file", lambda *given: asked.append(given[-1]))
    window.actions_by_id["wasm"].trigger()
    assert window.welcome.page.isVisible()
    assert asked[0](file)
    qtbot.waitUntil(lambda: window.wasm.survey is not None)
    assert window.docks["wasm"].seen and not window.welcome.page.isVisible()


def test_the_headline_has_room_in_a_small_window(qtbot, window, shown):
    """As long as that of ONNX Runtime Web's largest file."""
    window.resize(1280, 720)
    functions = tuple(replace(shown.survey.functions[0], index=i) for i in range(18_222))
    path = shown.survey.path.with_name("ort-wasm-simd-threaded.asyncify.wasm")
    shown.show_survey(replace(shown.survey, path=path, nbytes=28_312_028, functions=functions))
    qtbot.waitUntil(lambda: shown.width() < 1280)
    assert len(shown.caption.text()) > 100
    qtbot.waitUntil(lambda: shown.caption.shown() == shown.caption.text())


def test_the_keys_are_in_the_table_and_not_in_a_setting(window, shown):
    """They stayed in the header's backend, which the arrow keys changed."""
    assert window.focusWidget() is shown.functions.view


def test_what_cannot_be_read_is_said(qtbot, window, tmp_path):
    path = tmp_path / "broken.wasm"
    path.write_bytes(b"\0asm\1\0\0\0\x0a\xff\x7f")
    assert window.dropped.drop([path])
    qtbot.waitUntil(lambda: "ends too early" in window.message.text.text())
    assert window.wasm.survey is None and not window.wasm.busy


@pytest.mark.parametrize("frame", [Box(0, 0, 300, 200), Box(5, 7, 40, 900)])
def test_a_treemap_fills_its_frame_in_proportion(frame):
    areas = [50, 20, 10, 10, 5, 3, 1, 1]
    boxes = squarified(areas, frame)
    whole = frame.width * frame.height
    for area, box in zip(areas, boxes, strict=True):
        assert box.width * box.height == pytest.approx(whole * area / 100)
        assert frame.x - 1e-6 <= box.x and box.x + box.width <= frame.x + frame.width + 1e-6
        assert frame.y - 1e-6 <= box.y and box.y + box.height <= frame.y + frame.height + 1e-6
    assert squarified([], frame) == []
    assert squarified([1, 2], Box(0, 0, 0, 0))[1].width == 0
