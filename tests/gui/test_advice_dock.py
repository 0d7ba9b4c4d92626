"""“Make it faster”: a ranked table, one click to apply or put back, and two for what is red."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advices import ADVICE, measured
from gui_window import StudioWindow, wait_job
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from test_window import open_it
from verdicts import FASTER as VERDICT

from nnjit_studio.advice.records import MEASURING, STOPPED, WAITING, stopped
from nnjit_studio.errors import ModelError
from nnjit_studio.ui.advice.cells import LOW, TALL, two_lines
from nnjit_studio.ui.advice.in_use import BACK, WAITS
from nnjit_studio.ui.advice.lines import (
    ANYWAY,
    APPLY,
    BLOCKED,
    CHANGE,
    COLUMNS,
    COSINE,
    FASTER,
    IN_USE,
    NOT_HERE,
    OVER,
    PUT_BACK,
    SMALLER,
    Line,
    gain_alone,
    gain_words,
    lines_of,
    title_alone,
)
from nnjit_studio.verdict.text import timing


@pytest.fixture
def window(qtbot, workbench, settings):
    from gui_fakes import engine_label, finish

    made = StudioWindow(workbench, engine_label, settings, visits=Visits())
    made.verdict._visits = None
    qtbot.addWidget(made, before_close_func=lambda w: finish(qtbot, workbench, w))
    made.show()
    return made


class Visits:
    def shut_down(self):
        pass


@pytest.fixture
def advised(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    wait_job(qtbot, window, "advise", lambda: window.actions_by_id["advise"].trigger() is None)
    return window


def lines(window):
    return {line.name: line for line in window.advice.model.rows}


def press(qtbot, window, name):
    """Press a row's button and wait until the model is open again."""
    wait_job(qtbot, window, "open", lambda: window.advice.buttons[name].click() is None)


def test_rows_are_ranked_and_say_what_they_are(advised):
    found = lines(advised)
    assert list(found) == [
        "", "direct", "int8", "cut", "f16-weights", "threads", "4-bit", "webgpu",
    ]  # fmt: skip
    assert [line.verdict for line in found.values()][1:] == [
        FASTER, FASTER, FASTER, SMALLER, FASTER, OVER, NOT_HERE,
    ]  # fmt: skip
    assert {advised.advice.buttons[n].text() for n in ("int8", "cut")} == {APPLY}
    texts = {name: button.text() for name, button in advised.advice.buttons.items()}
    assert texts["direct"] == texts["threads"] == APPLY and texts["4-bit"] == BLOCKED
    assert advised.advice.buttons["direct"].objectName() == "primary"
    assert "No adapter" in found["webgpu"].note
    advised.advice.view.grab()  # the bars
    copied = advised.advice.as_text(range(8), "excel-tab")
    assert "time and interval" in copied and "16 ms [15.7..16.3]" in copied


def test_one_click_applies_and_another_puts_back(qtbot, advised, workbench):
    first = workbench.importing
    press(qtbot, advised, "f16-weights")
    assert workbench.importing.half_weights and lines(advised)["f16-weights"].verdict == IN_USE
    press(qtbot, advised, "threads")
    assert workbench.threads == 2 and workbench.importing.half_weights
    assert advised.advice.strip.use.text().endswith("Ask of your page: Two headers.")
    assert advised.advice.buttons["threads"].text() == PUT_BACK
    press(qtbot, advised, "f16-weights")
    assert workbench.threads == 2 and not workbench.importing.half_weights
    press(qtbot, advised, "threads")
    assert (workbench.importing, workbench.threads) == (first, 1)


def test_a_red_row_is_applied_by_a_second_click_alone(qtbot, advised, workbench):
    advised.advice.buttons["4-bit"].click()
    qtbot.waitUntil(lambda: advised.advice.buttons["4-bit"].text() == ANYWAY)
    assert not workbench.importing.ways and "0.03 of its largest" in advised.advice.caption.text()
    press(qtbot, advised, "4-bit")
    assert workbench.importing.ways == {"q": "4"}


def test_a_row_that_is_another_file_opens_that(qtbot, advised, workbench, tmp_path):
    workbench.database.path = tmp_path / "kernels.db"
    press(qtbot, advised, "int8")
    (made,) = (tmp_path / "advice").iterdir()
    assert made.name.endswith("-int8.onnx") and lines(advised)["int8"].verdict == IN_USE
    assert "cut" not in advised.advice.buttons, "one such row at a time"
    made.unlink()
    press(qtbot, advised, "f16-weights")
    assert not made.exists() and workbench.importing.half_weights, "it is made once"
    press(qtbot, advised, "int8")
    assert advised.advice.in_use == ["f16-weights"] and "cut" in advised.advice.buttons


def test_what_is_in_use_is_named_and_put_back(qtbot, advised, workbench, tmp_path):
    workbench.database.path = tmp_path / "kernels.db"
    panel, header, first = advised.advice, advised.header, workbench.importing
    assert panel.strip.isHidden() and "in use" not in header.details.text()
    press(qtbot, advised, "f16-weights")
    press(qtbot, advised, "int8")
    assert not panel.strip.isHidden()
    assert panel.strip.use.text() == (
        "In use: Weights in f16, 8-bit. The open file is m-int8.onnx, made from m.onnx."
    )
    assert header.details.text().startswith("in use: Weights in f16, 8-bit")
    assert "Put everything back" in header.details.tip
    wait_job(qtbot, advised, "open", lambda: panel.strip.back_button.click() is None)
    assert workbench.importing == first and not panel.in_use and panel.strip.isHidden()
    assert "in use" not in header.details.text()


def test_the_set_in_use_is_measured_as_one(qtbot, advised, workbench):
    panel = advised.advice
    press(qtbot, advised, "f16-weights")
    qtbot.waitUntil(lambda: "Measured: 9 ms" in panel.strip.worth.text())
    press(qtbot, advised, "threads")
    assert panel.strip.worth.text() == WAITS, "what was measured before is of another set"
    qtbot.waitUntil(lambda: "Measured: 9 ms" in panel.strip.worth.text())
    assert [title for _, title in workbench.sets][-1] == "Weights in f16, 2 threads instead of 1"
    plain = workbench.sets[-1][0]
    assert plain.threads == 1 and not plain.importing.half_weights and plain.path.name == "m.onnx"
    assert panel.strip.worth.text() == (
        "Measured: 9 ms [8.82..9.18] for 20 ms, 2.20x [2.16..2.24]; "
        "largest error 1.0e-3; memory 24.4 MiB as before."
    )
    assert panel.strip.property("tone") == "plain"
    press(qtbot, advised, "f16-weights")
    qtbot.waitUntil(lambda: len(workbench.sets) == 3)
    wait_job(qtbot, advised, "open", lambda: panel.strip.back_button.click() is None)
    assert panel.measuring.found is None and panel.strip.isHidden() and len(workbench.sets) == 3


def test_a_set_beyond_the_limit_is_red_and_says_what_to_do(qtbot, advised, workbench):
    workbench.set_error = 0.05
    press(qtbot, advised, "f16-weights")
    strip = advised.advice.strip
    qtbot.waitUntil(lambda: strip.property("tone") == "bad")
    assert "0.05 of its largest value" in strip.worth.text()
    assert strip.worth.text().endswith(BACK) and strip.back_button.isVisibleTo(strip)


def test_a_measurement_of_the_set_gives_way_and_can_be_asked_for(qtbot, advised, workbench):
    workbench.hold_advice = True
    press(qtbot, advised, "f16-weights")
    measuring, strip = advised.advice.measuring, advised.advice.strip
    qtbot.waitUntil(lambda: len(workbench.sets) == 1)
    wait_job(qtbot, advised, "profile", lambda: advised.actions_by_id["profile"].trigger() is None)
    qtbot.waitUntil(lambda: len(workbench.sets) == 2), "it begins again after a user's job"
    with qtbot.waitSignal(advised.session.problem):
        advised.session.cancel()
    assert not measuring.waits and strip.measure_button.isVisibleTo(strip)
    workbench.hold_advice = False
    strip.measure_button.click()
    qtbot.waitUntil(lambda: "Measured: 9 ms" in strip.worth.text())


def test_who_applies_a_row_stays_with_the_list(qtbot, advised):
    advised.docks.show("advice")
    press(qtbot, advised, "f16-weights")
    qtbot.waitUntil(lambda: advised.advice.measuring.found is not None)
    assert advised.docks["advice"].seen and not advised.docks["profile"].seen
    panel = advised.advice
    (chosen,) = panel.view.selectionModel().selectedRows()
    assert panel.row_at(chosen).name == "f16-weights", "Enter puts back what was applied"


@pytest.mark.parametrize(("width", "cosine"), [(940, False), (1220, True), (2100, True)])
def test_titles_have_the_room_that_figures_leave(qtbot, advised, width, cosine):
    panel = advised.advice
    panel.setParent(None)
    qtbot.addWidget(panel)
    panel.resize(width, 500)
    panel.show()
    view = panel.view
    shown = [c for c in range(view.model().columnCount()) if not view.isColumnHidden(c)]
    assert sum(view.columnWidth(c) for c in shown) <= view.viewport().width(), "nothing is cut off"
    assert (COSINE in shown) == cosine and view.columnWidth(CHANGE) >= 280
    assert view.columnSpan(7, CHANGE) == 3, "a reason has the room of figures that are not there"


def test_a_smaller_form_that_is_no_faster_is_not_green_in_its_gain(advised):
    line = lines(advised)["f16-weights"]
    assert line.verdict == SMALLER and gain_words(line).startswith("1.00x")
    advised.advice.view.grab()  # two lines in a cell


def test_another_limit_judges_again(advised):
    advised.advice.limit.setText("0.1")
    advised.advice.limit.editingFinished.emit()
    assert lines(advised)["4-bit"].verdict == FASTER
    advised.advice.limit.setText("1e-5")
    advised.advice.limit.editingFinished.emit()
    assert lines(advised)["f16-weights"].verdict == OVER


def test_another_model_has_nothing_of_what_was_applied(qtbot, advised, workbench, model_file):
    press(qtbot, advised, "f16-weights")
    open_it(qtbot, advised, model_file)
    assert not workbench.importing.half_weights
    assert advised.advice.result is None and not advised.advice.in_use


def test_what_cannot_be_opened_is_not_in_use(qtbot, advised, workbench):
    from nnjit_studio.errors import UserError

    workbench.open_error = UserError("No.", "Yes.")
    with qtbot.waitSignal(advised.session.problem):
        advised.advice.buttons["direct"].click()
    assert lines(advised)["direct"].verdict == FASTER and workbench.importing.winograd


def test_it_is_the_next_step_after_a_session(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    wait_job(qtbot, window, "tune", window.start_tuning)
    assert window.card.buttons[0].text() == "Make it faster"
    wait_job(qtbot, window, "advise", lambda: window.card.buttons[0].click() is None)
    assert window.docks["advice"].seen and window.advice.result == ADVICE


def test_a_stopped_list_keeps_what_was_measured(qtbot, window, workbench, model_file):
    open_it(qtbot, window, model_file)
    workbench.hold_advice = True
    window.actions_by_id["advise"].trigger()
    qtbot.waitUntil(lambda: window.advice.model.rowCount() == 8)
    qtbot.waitUntil(lambda: "products in 8 bits, 3 of 64" in window.advice.caption.text())
    with qtbot.waitSignal(window.session.problem):
        window.advice.button.click()
    assert window.advice.model.rowCount() == 8 and window.advice.buttons["direct"].isEnabled()
    assert window.advice.caption.text() == "Stopped before all rows were measured."
    assert not any(row.state == MEASURING for row in window.advice.result.rows)


def test_a_row_is_applied_while_others_are_measured(qtbot, window, workbench, model_file):
    open_it(qtbot, window, model_file)
    workbench.hold_advice = True
    window.actions_by_id["advise"].trigger()
    panel = window.advice
    qtbot.waitUntil(lambda: panel.caption.text().startswith("Best so far 1.80x. "))
    panel.buttons["4-bit"].click()
    qtbot.waitUntil(lambda: panel.buttons["4-bit"].text() == ANYWAY)
    press(qtbot, window, "f16-weights")
    assert workbench.importing.half_weights and panel.in_use == ["f16-weights"]
    assert panel.result.phase == STOPPED, "the rest is left"


def test_nothing_waits_in_a_stopped_list():
    first, *others = ADVICE.rows
    begun = replace(ADVICE, rows=(replace(first, state=WAITING, measured=None), *others))
    assert "waiting" in [line.verdict for line in lines_of(begun)]
    verdicts = [line.verdict for line in lines_of(stopped(begun))]
    assert "not measured" in verdicts and "waiting" not in verdicts


def test_where_nothing_is_faster_the_smallest_is_named(advised):
    panel, half = advised.advice, ADVICE.row("f16-weights")
    panel.show_result(replace(ADVICE, rows=(half,)))
    smallest = "Smallest within the error limit: Weights in f16, 10.0 MB for 20.0 MB."
    assert panel.caption.text().endswith(smallest)


def test_in_a_low_window_eight_rows_are_seen_each_with_its_button(qtbot, advised):
    advised.resize(1280, 720)
    advised.docks.reset()
    panel = advised.advice
    advised.docks.show("advice")
    qtbot.waitUntil(lambda: panel.view.rowHeight(0) == LOW)
    eighth = panel.view.visualRect(panel.model.index(7, CHANGE))
    assert panel.view.viewport().rect().contains(eighth), "the untouched model and all seven rows"
    assert all(button.height() <= LOW for button in panel.buttons.values())
    panel.select_row(lambda line: line.name == "threads")
    panel.detail.setText("What is to be known of a row. " * 8)
    assert panel.box.totalHeightForWidth(950) < 200, "below the list it is not cut"
    assert panel.view.viewport().grab() is not None
    advised.resize(1920, 1400)
    advised.docks.reset()
    qtbot.waitUntil(lambda: panel.view.rowHeight(0) == TALL)
    assert not any(button.property("low") for button in panel.buttons.values())


def test_a_low_row_tells_the_gain_or_the_verdict_in_a_line(advised):
    found = lines(advised)
    assert gain_alone(found["direct"]) == "▲ 1.25x [1.21..1.29]"
    assert gain_alone(found["4-bit"]) == "✗ over the error limit"
    assert title_alone(found["webgpu"]) == "WebGPU: No adapter."
    assert title_alone(found["threads"]) == "2 threads instead of 1"


def test_the_list_is_used_by_keys_alone(qtbot, advised, workbench):
    view = advised.advice.view
    view.setFocus()
    view.setCurrentIndex(advised.advice.model.index(0, CHANGE))
    qtbot.keyClick(view, Qt.Key.Key_Down)
    panel = advised.advice
    assert panel._chosen() == "direct" and panel.detail.isHidden(), "the title stands in the row"
    panel._explain(replace(panel.model.rows[1], note="Why it is so."))
    assert panel.detail.text() == "Why it is so." and not panel.detail.isHidden()
    qtbot.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert "Without tiles" in QGuiApplication.clipboard().text()
    wait_job(qtbot, advised, "open", lambda: qtbot.keyClick(view, Qt.Key.Key_Return) is None)
    assert lines(advised)["direct"].verdict == IN_USE
    assert advised.advice._chosen() == "direct", "the row, and not its place"


def test_tab_goes_from_the_list_to_the_button_of_its_row(qtbot, advised, workbench):
    """It went to the button in the middle, or left the list."""
    panel = advised.advice
    panel.view.setFocus()
    panel.select_row(lambda line: line.name == "cut")
    qtbot.keyClick(panel.view, Qt.Key.Key_Tab)
    button = advised.focusWidget()
    assert button is panel.buttons["cut"]
    qtbot.keyClick(button, Qt.Key.Key_Tab)
    assert advised.focusWidget() not in panel.buttons.values()
    qtbot.keyClick(advised.focusWidget(), Qt.Key.Key_Backtab)
    qtbot.keyClick(advised.focusWidget(), Qt.Key.Key_Backtab)
    assert advised.focusWidget() is panel.view


def test_space_applies_a_row_and_ctrl_z_puts_it_back(qtbot, advised, workbench):
    panel, first = advised.advice, workbench.importing
    undo, redo = (advised.actions_by_id[key] for key in ("undo", "redo"))
    panel.view.setFocus()
    panel.select_row(lambda line: line.name == "f16-weights")
    wait_job(qtbot, advised, "open", lambda: qtbot.keyClick(panel.view, Qt.Key.Key_Space) is None)
    assert panel.in_use == ["f16-weights"] and advised.focusWidget() is panel.view
    assert advised.message.text.text() == "Applied: Weights in f16. Ctrl+Z undoes it."
    press(qtbot, advised, "direct")
    wait_job(qtbot, advised, "open", lambda: undo.trigger() is None)
    assert panel.in_use == ["f16-weights"] and workbench.importing.half_weights
    wait_job(qtbot, advised, "open", lambda: undo.trigger() is None)
    assert panel.in_use == [] and workbench.importing == first and not undo.isEnabled()
    wait_job(qtbot, advised, "open", lambda: redo.trigger() is None)
    assert panel.in_use == ["f16-weights"]


def test_what_cannot_be_opened_is_no_step_and_another_model_has_none(
    qtbot, advised, workbench, model_file
):
    undo = advised.actions_by_id["undo"]
    workbench.open_error = ModelError("It does not fit.", "Take another one.")
    with qtbot.waitSignal(advised.session.problem):
        advised.advice.buttons["f16-weights"].click()
    assert not undo.isEnabled() and advised.advice.in_use == []
    workbench.open_error = None
    press(qtbot, advised, "f16-weights")
    assert undo.isEnabled()
    wait_job(qtbot, advised, "open", lambda: advised.open_model(model_file))
    assert not undo.isEnabled()


def test_the_untouched_model_has_one_time_in_the_window(advised):
    """The header had the verdict's, the list that of its first page."""
    panel = advised.advice
    advised.verdict.panel.show_verdict(VERDICT)
    stated = VERDICT.own.ms
    found = lines(advised)
    assert found[""].measured.ms == stated
    assert found["direct"].measured.ms.median == pytest.approx(stated.median * 16 / 20)
    panel.in_use = ["direct"]
    advised.verdict.panel.show_verdict(replace(VERDICT, rows=VERDICT.rows[:2]))
    panel.fill()
    assert lines(advised)[""].measured.ms == stated, "the other verdict is of the form in use"


def test_rows_in_use_have_one_time_in_the_window(qtbot, advised):
    """Header, list and line above it had one each; the verdict's is a fourth."""
    panel = advised.advice
    press(qtbot, advised, "f16-weights")
    qtbot.waitUntil(lambda: "Measured: 9 ms" in panel.strip.worth.text())
    line, untouched = (lines(advised)[name] for name in ("f16-weights", ""))
    assert (line.measured.ms.median, untouched.measured.ms.median) == (9, 20)
    assert gain_words(line) == "2.20x [2.16..2.24]"
    assert advised.header.now.number.text() == "9.00 ms"
    advised.verdict.panel.show_verdict(VERDICT)
    own = VERDICT.own.ms
    line, untouched = (lines(advised)[name] for name in ("f16-weights", ""))
    assert line.measured.ms == own
    assert untouched.measured.ms.median == pytest.approx(own.median * 20 / 9)
    assert panel.strip.worth.text().startswith(f"Measured: {timing(own, False)} for ")


def test_the_selected_row_stays_selected_where_others_overtake_it(advised):
    panel, advice = advised.advice, advised.advice.result
    panel.select_row(lambda line: line.name == "f16-weights")
    rows = tuple(
        replace(row, measured=measured(2.0, 10.0)) if row.name == "int8" else row
        for row in advice.rows
    )
    panel.show_result(replace(advice, rows=rows))
    assert list(lines(advised)).index("int8") == 1 and panel._chosen() == "f16-weights"
    panel.show_result(replace(advice, rows=rows[2:]))
    assert panel._chosen() == "", "nor is another one selected in its place"


def test_enter_on_a_red_row_asks_once_more(qtbot, advised, workbench):
    panel = advised.advice
    panel.select_row(lambda line: line.name == "4-bit")
    panel.view.setFocus()
    qtbot.keyClick(panel.view, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: panel.buttons["4-bit"].text() == ANYWAY)
    assert not workbench.importing.ways


def test_keys_go_to_the_list_and_not_to_the_next_button(advised):
    assert advised.focusWidget() is advised.advice.view


def test_a_title_without_room_goes_on_in_the_second_line():
    def fits(words):
        return len(words) <= 16

    assert two_lines("Weights in f16", "a note", fits) == ("Weights in f16", "a note")
    assert two_lines("Weights in 8 bits, once", "a note", fits) == ("Weights in 8", "bits, once")
    assert two_lines("ch_PP-OCRv4_rec_infer.onnx", "a note", fits)[1] == "a note"


def test_little_memory_fits_its_column():
    """64 KiB were "0.0625 …"."""
    line = Line("m", "", replace(measured(9.0, 2.0), memory_mib=0.0625))
    column = next(c for c in COLUMNS if c.title == "memory")
    assert column.text(column.value(line)) == "64 KiB"
