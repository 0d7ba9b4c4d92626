"""Sizes to tune for: the field, the job, and the plots of latency and memory."""

from dataclasses import replace

import pytest
from gui_window import wait_job
from verdicts import FASTER as VERDICT

from nnjit_studio.analysis.profile.sizes import SizeRow, SizesProfile
from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import InputPort
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.ui.profile.sizes import COLUMNS, FIXED, SizeLine, parsed
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.jobs.sizes import SizesEffort

OPEN = (InputPort("ids", "int64", ("batch", "sequence")),)


def row(size):
    samples = [size / 8, size / 7, size / 6] * 4
    return SizeRow({"batch": 1, "sequence": size}, Estimate.of(samples), 9.0, size << 20, 9)


def found(sizes):
    rows = tuple(map(row, sizes))
    return SizesProfile("m", "embedded", "fake", 1, "simd128", rows, ())


@pytest.fixture
def asked(monkeypatch):
    calls = []

    def measured(bench, path, wanted, effort, tell):
        calls.append((wanted, effort))
        if wanted["sequence"] == (1, 2):
            raise UserError("A size does not fit.")
        return found(wanted["sequence"])

    monkeypatch.setattr(jobs, "profile_sizes_beside", measured)
    return calls


def open_it(qtbot, window, path):
    wait_job(qtbot, window, "open", lambda: window.session.open(path, lambda survey: {"x": 1}))
    return window.panel("profile").sizes


@pytest.mark.parametrize(
    ("words", "sizes"),
    [("64, 16 32", (16, 32, 64)), ("8,8", (8,)), ("a", ()), ("0, 4", ()), ("-3", ()), ("", ())],
)
def test_sizes_are_whole_numbers_in_order(words, sizes):
    assert tuple(parsed(words)) == sizes


def test_a_model_without_open_sizes_has_no_field_to_type_in(qtbot, window, model_file):
    view = open_it(qtbot, window, model_file)
    assert view.caption.text() == FIXED and not view.field.isEnabled()


def test_typed_sizes_are_measured_and_plotted(qtbot, window, workbench, model_file, asked):
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    assert view.dimension.currentText() == "text length: sequence", "the batch comes last"
    assert view.field.text() == "32, 64, 128, 256" and view.button.isEnabled()
    view.field.setText("64 16")
    wait_job(qtbot, window, "sizes", view.measure)
    assert asked == [({"sequence": (16, 64)}, SizesEffort())]
    assert [row[0] for row in view.latency.table()[1]] == [16.0, 64.0]
    assert [row[1] for row in view.memory.table()[1]] == [16.0, 64.0]
    assert view.caption.text() == ("Text length at 2 sizes, in turns from one import, on 1 thread.")
    told = view.table.as_text(range(2), "markdown").splitlines()
    assert told[2].startswith("| 16 | 2.29 ms | ") and told[2].endswith(" | 16.0 MiB |")
    assert told[3].startswith("| 64 | 9.14 ms | ") and view.latency.axes.text().startswith(
        "latency"
    )
    assert view.latency.item.getAxis("bottom").labelText == "text length"


def test_how_often_sizes_come_is_read_from_a_file(
    qtbot, window, workbench, model_file, asked, tmp_path
):
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("16 70\n64 20\n200 10\n9999999 1\n")
    view.read_files([lengths])
    qtbot.waitUntil(lambda: view.runs.text() != "")
    assert view.field.text() == "16, 64" and view.runs.text() == "70, 30", (
        "each run counts for the size that is nearest"
    )
    assert "100 runs of 16 to 200" in view.caption.text()
    assert "1 more are outside 1 to 512" in view.caption.text()
    lengths.write_text("8 100\n9 1\n")
    view.read_files([lengths])
    qtbot.waitUntil(lambda: view.runs.text() == "100, 1")
    assert view.field.text() == "8, 9", "one size alone is no series"
    lengths.write_text("16 70\n64 20\n200 10\n")
    view.read_files([lengths])
    qtbot.waitUntil(lambda: view.field.text() == "16, 64")
    view.field.setText("16, 64, 200")
    assert view.runs.text() == "70, 20, 10"
    assert max(view.latency.runs.opts["y1"]) > 0 and "bars" in view.latency.axes.text()
    wait_job(qtbot, window, "sizes", view.measure)
    assert asked == [({"sequence": (16, 64, 200)}, SizesEffort(shares=(70, 20, 10)))]
    assert max(view.latency.runs.opts["y1"]) == pytest.approx(
        0.3 * max(point[3] for point in view.latency.table()[1])
    ), "below the curve, on its axis"
    view.runs.undo()
    assert view.runs.text() == "70, 30"


def test_runs_are_typed_in_the_order_of_the_sizes(qtbot, window, workbench, model_file, asked):
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    view.field.setText("64, 16")
    view.runs.setText("1 3")
    wait_job(qtbot, window, "sizes", view.measure)
    assert asked == [({"sequence": (16, 64)}, SizesEffort(shares=(3, 1)))]
    view.runs.setText("1 3 4")
    assert not view.measure() and "one number of runs for each size" in view.caption.text()


def test_what_is_known_of_a_size_is_told(qtbot, window, workbench, model_file, monkeypatch):
    """Tuned sizes are filled points, a bundle for one size is a line of its own."""
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    at = [
        replace(row(16), share=0.75, tuned=2, tunable=3, alone=Interval(2.0, 1.5, 2.5)),
        replace(row(64), share=0.25, tunable=3, alone=Interval(1.0, 0.9, 1.1)),
    ]
    view.show_result(replace(found(()), rows=tuple(at)))
    told = view.table.as_text(range(2), "markdown").splitlines()
    assert told[2].endswith("| 75.0 | 2 of 3 | 2.00x, 1.50 to 2.50 |")
    assert told[3].endswith("| 25.0 | 0 of 3 | not told apart, 0.90 to 1.10 |")
    assert [point[4] for point in view.latency.table()[1]] == pytest.approx([8 / 7, 64 / 7])
    assert view.latency.alone.getData()[1] == pytest.approx([8 / 7, 64 / 7])
    first, second = view.latency.line.opts["symbolBrush"]
    assert first.color() != second.color() and "hollow: untuned" in view.latency.axes.text()
    assert "A run takes 4.00 ms on average." in view.caption.text()
    view.show_result(found((16, 64)))
    assert view.table.as_text(range(2), "markdown").splitlines()[2].endswith("| 16.0 MiB |")


def test_an_interval_of_microseconds_is_none_of_zeros():
    time = Estimate.of([0.003, 0.004, 0.005] * 4)
    line = SizeLine("n", SizeRow({"n": 1}, time, 9.0, 1 << 20, 9))
    assert line.interval == "3.00 µs to 5.00 µs"


def test_a_batch_alone_is_called_a_batch(qtbot, window, workbench, model_file):
    workbench.ports = (InputPort("x", "float32", ("batch", 64)),)
    view = open_it(qtbot, window, model_file)
    assert view.dimension.currentText() == "batch" and view.field.text() == "1, 2, 4, 8"
    view.field.setText("1, 99999999")
    assert not view.measure() and view.caption.text().startswith("Sizes of batch are from 1 to ")


def test_sizes_out_of_range_are_refused_at_once(qtbot, window, workbench, model_file, asked):
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    view.field.setText("64, 99999999")
    assert not view.measure() and not asked
    assert "are from 1 to" in view.caption.text()


def test_they_are_tuned_for_where_that_is_asked(qtbot, window, workbench, model_file, asked):
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    wait_job(qtbot, window, "sizes", lambda: view.tune_button.click() is None)
    assert asked[0][1].seconds > 0


def test_one_size_is_no_series_and_a_failure_is_told(qtbot, window, workbench, model_file, asked):
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    view.field.setText("64")
    assert not view.measure() and "Type 2 to 8" in view.caption.text() and not asked
    view.field.setText("1, 2")
    with qtbot.waitSignal(window.session.problem):
        view.measure()
    assert "does not fit" in window.message.text.text()


def test_a_low_window_shows_plots_and_table_whole(qtbot, window, workbench, model_file, asked):
    workbench.ports = OPEN
    window.resize(1280, 720)
    window.docks.reset()
    view = open_it(qtbot, window, model_file)
    panel = window.panel("profile")
    window.docks.show("profile")
    panel.tabs.setCurrentWidget(view)
    view.field.setText("16 32 64 128")
    wait_job(qtbot, window, "sizes", view.measure)
    qtbot.wait(50)
    for plot in (view.latency, view.memory):
        assert plot.item.getViewBox().height() >= 60, "the curve itself, without its axes"
    table = view.table.view
    assert table.viewport().height() >= 3 * table.rowHeight(0)
    columns = sum(table.columnWidth(c) for c in range(4))
    assert columns <= table.viewport().width() + 1
    assert panel.button.isHidden() and panel.memory.isHidden(), "they are of other runs"
    panel.tabs.setCurrentIndex(0)
    assert not panel.button.isHidden()


@pytest.mark.parametrize(
    ("size", "layout"), [((1280, 720), "reset_layout"), ((800, 490), "layout_inspect")], ids=str
)
def test_small_windows_show_fields_curve_and_table(
    qtbot, window, workbench, model_file, asked, size, layout
):
    """At 1280x720 half of the table was out of sight, at 800x490 the fields were 50 pixels wide
    and half of the view was under the drawer."""
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    window.verdict.panel.show_verdict(VERDICT)
    wait_job(qtbot, window, "sizes", view.measure)
    window.resize(*size)
    window.actions_by_id[layout].trigger()
    window.docks.show("profile")
    window.panel("profile").tabs.setCurrentWidget(view)
    qtbot.waitUntil(lambda: view.visibleRegion().boundingRect().height() > 180)
    qtbot.wait(50)
    assert view.visibleRegion().boundingRect().size() == view.size(), "nothing is scrolled to"
    assert view.field.width() >= 200 and view.runs.width() >= 130
    assert view.latency.width() >= 200 and not view.memory.isVisible()
    table = view.table.view
    wanted = sum(column.width for column in COLUMNS) if size[0] > 1000 else 250
    assert table.viewport().width() >= wanted
    assert table.viewport().height() >= 2 * table.rowHeight(0)


def test_what_is_refused_is_red_until_it_is_right(qtbot, window, workbench, model_file, asked):
    workbench.ports = OPEN
    view = open_it(qtbot, window, model_file)
    assert view.caption.text().startswith("The model runs at these sizes in turns")
    view.field.setText("8, 9000")
    assert not view.measure()
    assert view.caption.objectName() == "bad" and view.field.property("wrong")
    view.field.setText("8, 16")
    wait_job(qtbot, window, "sizes", view.measure)
    assert view.caption.objectName() == "muted" and not view.field.property("wrong")
