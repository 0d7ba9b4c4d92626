"""The kernel inspector through its widgets; kernels are really compiled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gui_fakes import inspection_of, record
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from test_window import open_it, tune_it

from nnjit_studio.errors import UserError
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.kernel.texts import CODE, LOOPS, PROGRAM
from nnjit_studio.ui.widgets.code_view import CodeLines
from nnjit_studio.ui.widgets.theme import DARK, LIGHT

SETTINGS = "x0=8,y0=4,r0=1,x1=8,y1=4,r1=16,order=nm,pack=1"
OTHER = "x0=4,y0=4,r0=1,x1=4,y1=4,r1=16,order=nm,pack=1"


@pytest.fixture
def opened(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    return window


def shown(qtbot, window, settings=None):
    """Wait for a kernel, or for that of these settings."""
    panel = window.kernel
    qtbot.waitUntil(lambda: panel.kernel is not None and settings in (None, panel.kernel.settings))
    return panel


def look(qtbot, window, settings=SETTINGS):
    window.docks.show("kernel")
    window.kernel.look(settings)
    return shown(qtbot, window, settings)


def store(qtbot, window, workbench, records):
    """Put records into the database and wait until its table shows them."""
    workbench.stored = records
    qtbot.waitUntil(lambda: not window.session.reader.job)
    window.session.read_records()
    qtbot.waitUntil(lambda: window.database.model.rowCount() == len(records))


def values(panel):
    return {row.what: row.value for row in panel.numbers.model.rows}


def test_f4_shows_the_kernel_that_runs(qtbot, opened, workbench):
    assert opened.actions_by_id["kernel"].shortcut().toString() == "F4"
    opened.actions_by_id["kernel"].trigger()
    panel = shown(qtbot, opened)
    assert panel.isVisible()
    assert workbench.inspected[-1] == (opened.session.state.selected, "")
    assert panel.kernel.settings == "default"
    assert "the default schedule, runs now" in panel.caption.text()
    assert not panel.measure_button.isEnabled()
    assert values(panel)["lite space"] is None and values(panel)["size"] > 100


def test_without_a_model_the_next_step_is_told(window, workbench):
    window.actions_by_id["kernel"].trigger()
    assert "open one first (Ctrl+O)" in window.message.text.text()
    assert workbench.inspected == []


def test_a_row_of_the_lite_space_opens_its_kernel(qtbot, opened, workbench):
    tune_it(qtbot, opened)
    opened.docks.show("space")
    opened.space.view.selectRow(2)
    opened.space.view.setFocus()
    opened.actions_by_id["kernel"].trigger()
    picked = opened.space.model.shown[2]
    panel = shown(qtbot, opened, picked.settings)
    assert panel.editor.settings() == picked.settings


def test_a_record_opens_its_kernel_and_selects_its_workload(qtbot, opened, workbench):
    other = opened.session.state.by_share()[1].workload
    store(qtbot, opened, workbench, [record(other, SETTINGS, "slower", 20.0, 3)])
    opened.database.view.selectRow(0)
    opened.database.view.doubleClicked.emit(opened.database.model.index(0, 0))
    panel = shown(qtbot, opened, SETTINGS)
    assert opened.session.state.selected == other.key == panel.kernel.workload.key
    assert "known from the database" in panel.verdict.text()
    assert panel.keep_button.isEnabled()
    assert [s.name for s in panel.samples.sets] == ["this one"]
    assert "from the database, 2026-11-03" in panel.samples.sets[0].source


def test_a_record_of_another_model_is_refused_in_words(qtbot, opened, workbench):
    mine = opened.session.state.by_share()[0].workload
    foreign = replace(record(mine, SETTINGS, "won", 20.0, 3), workload="matmul:1x1x1:f32#0")
    store(qtbot, opened, workbench, [foreign])
    opened.database.view.selectRow(0)
    opened.database.view.doubleClicked.emit(opened.database.model.index(0, 0))
    assert "The open model has no MatMul 1x1 by 1x1" in opened.message.text.text()
    assert workbench.inspected == []


def test_lines_that_correspond_are_marked(qtbot, opened):
    panel = look(qtbot, opened)
    views = panel.sides.views
    loops = views[LOOPS].lines
    text = loops.toPlainText().splitlines()
    store = next(i for i, line in enumerate(text) if line.strip().startswith("out0["))
    loops.go_to(store)
    code = views[CODE].lines
    marked = [code.toPlainText().splitlines()[i] for i in code.marks]
    assert any(".store" in line for line in marked)
    assert all("$out0" in line for line in marked)
    program = views[PROGRAM].lines
    (statement,) = (program.toPlainText().splitlines()[i] for i in program.marks)
    assert statement.strip().startswith("out0[")
    assert loops.marks == {store: "accent"} and set(program.marks.values()) == {"partner"}
    assert "by statement and loop" in panel.sides.granularity.text()
    assert "by buffer" in panel.sides.granularity.text()


def test_the_keyboard_walks_the_lines_and_back(qtbot, opened):
    panel = look(qtbot, opened)
    code = panel.sides.views[CODE].lines
    target = next(
        i for i, line in enumerate(code.toPlainText().splitlines()) if "local.set $acc" in line
    )
    code.go_to(target - 1)
    code.setFocus()
    qtbot.keyClick(code, Qt.Key.Key_Down)
    assert code.marks == {target: "accent"}
    loops = panel.sides.views[LOOPS].lines
    assert loops.marks and all("acc" in loops.toPlainText().splitlines()[i] for i in loops.marks)


def test_passes_show_their_times_and_changes(qtbot, opened):
    panel = look(qtbot, opened)
    table, view = panel.passes.table, panel.passes.view
    steps = table.model.rows
    assert [s.name for s in steps][:2] == ["schedule", "lower"]
    tee = [s.name for s in steps].index("load_store_to_variable")
    table.view.selectRow(tee)
    assert view.title.text() == "After load_store_to_variable"
    lines = view.lines.toPlainText().splitlines()
    assert {lines[i][0] for i, tone in view.lines.marks.items() if tone == "good"} == {"+"}
    assert {lines[i][0] for i, tone in view.lines.marks.items() if tone == "bad"} == {"-"}
    whole = len(lines)
    panel.passes.only.setChecked(True)
    assert len(view.lines.toPlainText().splitlines()) < whole
    panel.passes.next_button.click()
    assert view.lines.line in view.lines.marks
    table.view.selectRow(0)
    assert "nothing before has this form" in view.note.text()
    assert not panel.passes.next_button.isEnabled()


def test_each_text_is_copied_whole(qtbot, opened):
    panel = look(qtbot, opened)
    for view, text in (
        (panel.sides.views[PROGRAM], panel.kernel.program),
        (panel.sides.views[LOOPS], panel.kernel.loops),
        (panel.sides.views[CODE], panel.kernel.code),
    ):
        view.copy_button.click()
        assert QGuiApplication.clipboard().text().rstrip("\n") == text.rstrip("\n")


def test_an_edited_setting_is_compiled_at_once(qtbot, opened, workbench):
    panel = look(qtbot, opened)
    before = panel.kernel
    panel.editor.fields["x0"].setValue(4)
    assert panel.editor.fields["x1"].value() == 4, "a block that was one tile stays one"
    shown(qtbot, opened, OTHER)
    assert workbench.inspected[-1] == (before.workload.key, OTHER)
    assert panel.kernel.kernel.sha256 != before.kernel.sha256
    assert panel.verdict.text().startswith("Compiled;")


def test_arrows_of_wasm_settings_go_by_vectors(qtbot, opened):
    panel = look(qtbot, opened)
    field = panel.editor.fields["x0"]
    qtbot.keyClick(field, Qt.Key.Key_Up)
    assert field.value() == 12
    qtbot.keyClick(panel.editor.fields["y0"], Qt.Key.Key_Down)
    assert panel.editor.fields["y0"].value() == 3


def test_settings_that_make_no_candidate_are_told_and_not_measured(qtbot, opened, workbench):
    key = opened.session.state.selected
    workload = opened.session.state.workloads[key].workload
    gpu = "x0=4,y0=4,r0=4,x1=16,y1=16,r1=16,split=1,vec=4"
    panel = look(qtbot, opened)
    panel._wanted = (key, gpu)
    panel._show(inspection_of(workload, gpu, GpuProfile(description="Some GPU")))
    assert list(panel.editor.fields) == ["x0", "y0", "r0", "x1", "y1", "r1", "split", "vec"]
    assert panel.sides.views[CODE].title.text() == "WGSL"
    assert not panel.sides.views[LOOPS].isVisible()
    panel.editor.fields["x1"].setValue(17)
    panel.measure()
    assert "x1 must be a multiple of x0" in panel.verdict.text()
    assert workbench.tried == []
    field = panel.editor.fields["x1"]
    field.setValue(16)
    qtbot.keyClick(field, Qt.Key.Key_Up)
    assert field.value() == 32, "sizes of a GPU double"


def test_wgsl_is_marked_from_tensor_ir(qtbot, opened):
    key = opened.session.state.selected
    workload = opened.session.state.workloads[key].workload
    panel = look(qtbot, opened)
    panel._wanted = (key, "default")
    panel._show(inspection_of(workload, "", GpuProfile(description="Some GPU")))
    program = panel.sides.views[PROGRAM].lines
    line = next(i for i, text in enumerate(program.toPlainText().splitlines()) if "in0[" in text)
    program.go_to(line)
    code = panel.sides.views[CODE].lines
    assert code.marks and any("fma(" in code.toPlainText().splitlines()[i] for i in code.marks)


def measured_by(workbench, state, samples=(2.0, 2.1, 1.9, 2.0)):
    def attempt(workload, settings):
        workbench.tried.append((workload, settings))
        yield ev.Measured(
            0.2, workload, settings, state, "told so", 41.5, 2.0, samples, 0.9, 0.85, 0.95, 0.25,
            tuple(2 * s for s in samples),
        )  # fmt: skip
        if state == "won":
            yield ev.Swapped(0.3, workload, settings, 30.0, 41.5)

    workbench.try_candidate = attempt


def measure(qtbot, opened, panel):
    with qtbot.waitSignal(opened.session.done, check_params_cb=lambda job, _: job == "try"):
        panel.measure_button.click()


def test_what_is_slower_may_be_kept_and_put_back(qtbot, opened, workbench):
    measured_by(workbench, "slower")
    panel = look(qtbot, opened)
    assert not panel.keep_button.isEnabled(), "nothing is known of it yet"
    measure(qtbot, opened, panel)
    assert workbench.tried == [(opened.session.state.selected, SETTINGS)]
    assert panel.verdict.text() == "41.5 GFLOP/s, slower: told so"
    assert panel.keep_button.isEnabled() and not panel.back_button.isEnabled()
    with qtbot.waitSignal(opened.session.done):
        panel.keep_button.click()
    assert workbench.kept == [(opened.session.state.selected, SETTINGS)]
    assert "(runs now)" in panel.caption.text()
    assert not panel.keep_button.isEnabled() and panel.back_button.isEnabled()
    with qtbot.waitSignal(opened.session.done):
        panel.back_button.click()
    assert workbench.kept[-1] == (opened.session.state.selected, "default")
    assert "runs now" not in panel.caption.text()


def test_ctrl_z_has_the_kernel_of_before_again(qtbot, opened, workbench):
    measured_by(workbench, "slower")
    panel = look(qtbot, opened)
    measure(qtbot, opened, panel)
    with qtbot.waitSignal(opened.session.done):
        panel.keep_button.click()
    key, undo = opened.session.state.selected, opened.actions_by_id["undo"]
    works = [w.workload for w in opened.session.state.by_share()]
    other = next(w.key for w in works if w.tunable and w.key != key)
    opened.session.select(other)
    qtbot.waitUntil(lambda: panel.kernel.workload.key == other)
    assert not panel.back_button.isEnabled(), "nothing of this workload is to be put back"
    with qtbot.waitSignal(opened.session.done):
        undo.trigger()
    assert workbench.kept[-1] == (key, "default")
    with qtbot.waitSignal(opened.session.done):
        opened.actions_by_id["redo"].trigger()
    assert workbench.kept[-1] == (key, SETTINGS)
    assert undo.isEnabled()


def test_ctrl_z_does_not_take_back_what_tuning_found_after_keep(qtbot, opened, workbench):
    measured_by(workbench, "slower")
    panel = look(qtbot, opened)
    measure(qtbot, opened, panel)
    with qtbot.waitSignal(opened.session.done):
        panel.keep_button.click()
    assert opened.host.history.done
    tune_it(qtbot, opened)
    assert not opened.host.history.done and len(workbench.kept) == 1


def test_a_winner_runs_and_can_be_put_back(qtbot, opened, workbench):
    measured_by(workbench, "won")
    panel = look(qtbot, opened)
    measure(qtbot, opened, panel)
    assert "(runs now)" in panel.caption.text()
    assert panel.back_button.isEnabled() and not panel.keep_button.isEnabled()


def test_a_wrong_kernel_cannot_be_kept(qtbot, opened, workbench):
    measured_by(workbench, "wrong", ())
    panel = look(qtbot, opened)
    measure(qtbot, opened, panel)
    assert "wrong: told so" in panel.verdict.text()
    assert not panel.keep_button.isEnabled()


def test_samples_are_shown_with_medians_and_quartiles(qtbot, opened, workbench):
    measured_by(workbench, "slower")
    panel = look(qtbot, opened)
    measure(qtbot, opened, panel)
    mine, incumbent = panel.samples.sets
    assert (mine.ms, incumbent.ms) == ((2.0, 2.1, 1.9, 2.0), (4.0, 4.2, 3.8, 4.0))
    assert "this one: median 2.0000 ms, IQR 0.0500 ms, 4 samples" in panel.samples.caption.text()
    assert len(panel.samples.table()[1]) == 8
    assert panel.roofline.caption.text().startswith("roof ")
    assert values(panel)["error"] == 0.25 and values(panel)["of the roof"] > 0


def test_bandwidth_that_was_never_measured_is_said(qtbot, opened):
    panel = look(qtbot, opened)
    limits = panel.kernel.limits
    panel.roofline.show_limits(type(limits)(55.0, None, 4.0), [("this one", 11.0)])
    assert "bandwidth not measured" in panel.roofline.caption.text()
    assert "this one 11.0 GFLOP/s, 20 %" in panel.roofline.caption.text()


def test_while_tuning_it_is_inspected_and_measured_next(qtbot, opened, workbench):
    workbench.hold = True
    opened.start_tuning()
    qtbot.waitUntil(lambda: opened.session.busy == "tune")
    panel = look(qtbot, opened)
    panel.measure_button.click()
    assert workbench.requested == [(opened.session.state.selected, SETTINGS)]
    assert not panel.keep_button.isEnabled()


def test_another_workload_shows_its_kernel_while_the_dock_is_seen(qtbot, opened, workbench):
    look(qtbot, opened)
    other = opened.session.state.by_share()[1].workload.key
    opened.session.select(other)
    qtbot.waitUntil(lambda: opened.kernel.kernel.workload.key == other)
    opened.docks.show("profile")
    qtbot.waitUntil(lambda: not opened.kernel._seen_now)
    seen = len(workbench.inspected)
    opened.session.select(opened.session.state.by_share()[0].workload.key)
    qtbot.wait(50)
    assert len(workbench.inspected) == seen, "hidden it asks for nothing"


def test_a_refused_candidate_is_one_sentence(qtbot, opened, workbench):
    panel = look(qtbot, opened)
    workbench.inspect_error = UserError("The device is not known yet.", "Wait for the page.")
    panel.look(OTHER)
    qtbot.waitUntil(lambda: "Wait for the page." in panel.verdict.text())
    assert panel.kernel.settings == SETTINGS


def test_another_model_empties_it(qtbot, opened, model_file, workbench):
    panel = look(qtbot, opened)
    opened.docks.show("space")
    open_it(qtbot, opened, model_file)
    assert panel.kernel is None and panel.caption.text().startswith("Select a node")


def test_the_last_of_many_wishes_counts(qtbot, opened, workbench):
    opened.docks.show("kernel")
    for settings in (SETTINGS, OTHER, SETTINGS, OTHER):
        opened.kernel.look(settings)
    shown(qtbot, opened, OTHER)
    assert len(workbench.inspected) <= 3


def test_themes_change_its_colours(qtbot, opened):
    panel = look(qtbot, opened)
    panel.sides.choose(LOOPS, 1)
    grounds = []
    for name in ("dark", "light"):
        opened.menus.choose_theme(name)
        (marked,) = panel.sides.views[LOOPS].lines.extraSelections()
        grounds.append(marked.format.background().color().lightness())
    assert grounds[0] < 128 < grounds[1]


@pytest.mark.parametrize(
    ("line", "word", "kind"),
    [
        ("for $k in range(0, 384, 4):", "for", "keyword"),
        ("for $k in range(0, 384, 4):", "384", "number"),
        ("in0: input f32 1x128x384", "f32", "type"),
        ("  a = in0[$tile*1920 + 4]  # splat", "# splat", "comment"),
        ("(local.set $b0 (v128.load offset=16))", "local.set", "keyword"),
        ("(local.set $b0 (v128.load offset=16))", "v128.load", "type"),
        ("b0 = in1[3]", "b0", ""),
    ],
)
def test_the_words_of_a_text_have_the_colours_of_the_theme(qtbot, line, word, kind):
    for theme in (LIGHT, DARK):
        lines = CodeLines("Wasm", LIGHT)
        qtbot.addWidget(lines)
        lines.show_text(line)
        lines.set_theme(theme)
        formats = lines.document().firstBlock().layout().formats()
        start, length = line.index(word), len(word)
        found = [f for f in formats if f.start <= start < f.start + f.length]
        assert all((f.start, f.length) == (start, length) for f in found)
        colours = [f.format.foreground().color().name() for f in found]
        assert colours == ([getattr(theme, f"code_{kind}")] if kind else [])


def test_texts_of_another_model_are_cleared_and_lines_are_numbered(qtbot, opened):
    panel = look(qtbot, opened)
    lines = panel.sides.views[CODE].lines
    assert lines.toPlainText() and panel.numbers.model.rows
    assert lines.viewportMargins().left() == lines.numbers.room > 0
    assert panel.passes.view.lines.numbers is None  # only some of its lines may be shown
    panel._forget()
    assert not any(view.lines.toPlainText() for view in panel.sides.views.values())
    assert not panel.passes.view.lines.toPlainText() and not panel.numbers.model.rows
