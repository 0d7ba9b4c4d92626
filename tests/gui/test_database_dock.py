"""The kernel database's dock on a real database: filter, group, compare, note, delete, undo."""

from dataclasses import replace

import pytest
from gui_fakes import engine_label, finish, record
from gui_window import StudioWindow
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox

from nnjit_studio.database import KernelDatabase
from nnjit_studio.ui.records import dock
from nnjit_studio.ui.records.feature import NoteDialog
from nnjit_studio.ui.records.filters import RecordFilters


def some(workload, settings, state, gflops, day, device="epyc-2c-a91f", browser=""):
    made = record(workload, settings, state, gflops, day)
    changes = {"browser": browser} if browser else {}
    return replace(made, key=replace(made.key, device_id=device), sha256=settings, **changes)


@pytest.fixture
def database(tmp_path, workbench):
    a, b = workbench.model.workloads[0], workbench.model.workloads[-1]
    with KernelDatabase.open(tmp_path / "kernels.db") as opened:
        opened.add_records(
            [
                some(a, "s1", "slower", 9.0, 3),
                some(a, "s2", "won", 20.0, 4),
                some(a, "s3", "wrong", 0.0, 5),
                some(a, "s4", "won", 40.0, 6, "m2-8c", "Chromium 156"),
                some(b, "s5", "won", 10.0, 7),
                some(b, "s6", "won", 5.0, 8, "m2-8c", "Chromium 156"),
            ]
        )
        workbench.database = opened
        yield opened


@pytest.fixture
def panel(qtbot, database, workbench, settings):
    window = StudioWindow(workbench, engine_label, settings)
    qtbot.addWidget(window, before_close_func=lambda w: finish(qtbot, workbench, w))
    window.show()
    window.docks.show("database")
    window.database.window_of_test = window
    settle(qtbot, window.database)
    assert len(window.database.listing.rows) == 6
    return window.database


def settle(qtbot, panel):
    """Wait until nothing reads the database any more: the window does so twice when it opens."""
    reader, store = panel.window_of_test.session.reader, panel.store
    qtbot.waitUntil(lambda: not reader.job and not store.job)


def shown(panel, title="settings"):
    column = [c.title for c in panel.model.columns].index(title)
    return [panel.model.index(i, column).data() for i in range(panel.model.rowCount())]


def select(panel, *settings):
    panel.view.clearSelection()
    panel.view.setSelectionMode(panel.view.SelectionMode.MultiSelection)
    for place, row in enumerate(panel.model.shown):
        if row.settings in settings:
            panel.view.selectRow(place)


def act(qtbot, panel, action):
    panel.window_of_test.actions_by_id[action].trigger()
    settle(qtbot, panel)


def test_records_are_filtered_by_words_and_by_values(panel):
    assert shown(panel) == ["s6", "s5", "s4", "s3", "s2", "s1"]
    panel.filter.setText("WON m2")
    assert shown(panel) == ["s6", "s4"]
    assert "2 of 6 records" in panel.count.text()
    panel.filter.clear()
    facets = panel.filters.facets
    facets["state"].setCurrentText("won")
    facets["device"].setCurrentText("epyc-2c-a91f")
    assert shown(panel) == ["s5", "s2"]
    facets["state"].setCurrentIndex(0)
    facets["device"].setCurrentIndex(0)
    assert len(shown(panel)) == 6
    assert [facets["device"].itemText(i) for i in range(3)] == [
        "Device: any", "epyc-2c-a91f", "m2-8c",
    ]  # fmt: skip


def test_headers_sort_whatever_is_shown(panel):
    column = [c.title for c in panel.model.columns].index("GFLOP/s")
    panel.view.sortByColumn(column, Qt.SortOrder.AscendingOrder)
    assert shown(panel) == ["s6", "s1", "s5", "s2", "s4", "s3"]
    panel.filter.setText("won")
    assert shown(panel) == ["s6", "s5", "s2", "s4"]
    panel.view.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
    assert shown(panel) == ["s6", "s5", "s4", "s2"]


def test_groups_show_their_best_and_follow_the_filters(panel):
    panel.filters.mode_chooser.setCurrentText("Best by workload")
    assert shown(panel) == ["s4", "s5"]
    assert shown(panel, "records") == ["4", "2"]
    panel.filters.facets["device"].setCurrentText("epyc-2c-a91f")
    assert shown(panel) == ["s2", "s5"]
    panel.filters.facets["device"].setCurrentIndex(0)
    panel.filters.mode_chooser.setCurrentText("Best by device")
    assert shown(panel, "device") == ["epyc-2c-a91f", "m2-8c"]
    assert shown(panel, "best GFLOP/s") == ["20.0", "40.0"]
    with_pick = []
    panel.picked.connect(with_pick.append)
    panel.view.selectRow(1)
    assert [row.settings for row in with_pick] == ["s4"]


def test_two_devices_side_by_side(panel):
    panel.filters.mode_chooser.setCurrentText("Compare devices")
    assert shown(panel, "ratio") == ["2.00×", "0.50×"]  # noqa: RUF001
    assert "m2-8c is 1.00× as fast" in panel.count.text()  # noqa: RUF001
    panel.copy_button.click()
    assert QGuiApplication.clipboard().text().startswith("workload\tratio\tms, epyc-2c-a91f")
    panel.filters.second.setCurrentText("epyc-2c-a91f")
    assert shown(panel, "ratio") == [] and "choose two devices" in panel.count.text()
    panel.filters.mode_chooser.setCurrentText("Compare browsers")
    assert len(shown(panel, "ratio")) == 2


def test_deleting_and_taking_it_back(qtbot, panel, database):
    select(panel, "s1", "s3")
    act(qtbot, panel, "delete")
    assert shown(panel) == ["s6", "s5", "s4", "s2"] and database.count() == 4
    assert "Deleted 2 records" in panel.window_of_test.message.text.text()
    act(qtbot, panel, "undo")
    assert len(shown(panel)) == 6 and database.count() == 6
    act(qtbot, panel, "redo")
    assert database.count() == 4
    panel.filters.deleted.setChecked(True)
    assert shown(panel) == ["s3", "s1"]
    select(panel, "s3")
    act(qtbot, panel, "restore")
    assert shown(panel) == ["s1"] and database.count() == 5


def test_nothing_selected_deletes_nothing(panel, database):
    panel.view.clearSelection()
    for action, sentence in (
        ("delete", "Select records"),
        ("restore", "Show deleted records"),
        ("note", "Select records"),
    ):
        panel.window_of_test.actions_by_id[action].trigger()
        assert sentence in panel.window_of_test.message.text.text()
    assert not panel.window_of_test.actions_by_id["undo"].isEnabled()
    assert database.count() == 6


def test_notes_and_tags_are_kept_and_undone(qtbot, panel, database):
    select(panel, "s2")
    panel.window_of_test.actions_by_id["note"].trigger()
    dialog = panel.window_of_test.findChild(NoteDialog)
    dialog.tags.setText(" mine  best ")
    dialog.note.setPlainText("on mains")
    with qtbot.waitSignal(panel.store.listed):
        dialog.accept()
    assert shown(panel, "tags")[4] == "mine best" and database.all_records()[4].note == "on mains"
    assert [row.settings for row in panel.selected()] == ["s2"]
    panel.filter.setText("mains")
    assert shown(panel) == ["s2"]
    act(qtbot, panel, "undo")
    assert shown(panel) == [] and database.all_records()[4].tags == ""


def test_what_fails_is_said_and_can_be_undone_later(qtbot, panel, database):
    select(panel, "s1")
    act(qtbot, panel, "delete")
    panel.store._records = KernelDatabase.open(database.path, read_only=True)
    with qtbot.waitSignal(panel.store.problem):
        panel.window_of_test.host.history.undo()
    assert "read-only" in panel.window_of_test.message.text.text()
    panel.store._records.close()
    panel.store._records = database
    act(qtbot, panel, "undo")
    assert database.count() == 6


def test_import_shows_what_is_in_the_file_first(qtbot, panel, database, tmp_path, workbench):
    with KernelDatabase.open(tmp_path / "other.db") as other:
        other.add_records([some(workbench.model.workloads[0], f"n{i}", "won", 3, 9) for i in "12"])
    with qtbot.waitSignal(panel.store.looked):
        panel.store.look_into(tmp_path / "other.db")
    box = panel.window_of_test.findChild(QMessageBox)
    assert "2 records of 1 workload from other.db" in box.text() and database.count() == 6
    progress = []
    panel.store.progressed.connect(lambda *at: progress.append(at))
    with qtbot.waitSignal(panel.store.told) as said:
        next(b for b in box.buttons() if b.text() == "Import").click()
    assert said.args == ["Added 2 records of other.db."] and database.count() == 8
    assert progress == [(0, 2), (0, 0)] and panel.progress.isHidden()
    assert len(shown(panel)) == 8
    with qtbot.waitSignal(panel.store.problem) as problem:
        panel.store.look_into(tmp_path / "nothing.json")
    assert "nothing.json" in problem.args[0].error


def test_export_writes_what_import_reads(qtbot, panel, tmp_path):
    out = tmp_path / "out.json"
    with qtbot.waitSignal(panel.store.told):
        panel.store.export_to(out)
    assert len(KernelDatabase.look_into(out)) == 6


def test_tables_copy_as_markdown_and_csv(panel):
    select(panel, "s2")
    panel.copy("markdown")
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].startswith("| workload | settings |") and "| --: |" in lines[1]
    assert "| s2 |" in lines[2] and len(lines) == 3
    panel.copy("excel")
    assert QGuiApplication.clipboard().text().splitlines()[1].count(",") >= 13
    keys = {a.text(): a.shortcut().toString() for a in panel.view.actions()}
    assert keys["Copy as TSV"] == "Ctrl+C" and keys["Copy as Markdown"] == "Ctrl+Shift+C"


def test_what_a_kernel_is_written_in(qtbot, workbench, settings, tmp_path):
    wasm = some(workbench.model.workloads[0], "s1", "won", 9.0, 3)
    gpu = replace(wasm, key=replace(wasm.key, tier="wgsl-subgroups"), sha256="2")
    with KernelDatabase.open(tmp_path / "both.db") as opened:
        opened.add_records([wasm, gpu])
        workbench.database = opened
        window = StudioWindow(workbench, engine_label, settings)
        qtbot.addWidget(window, before_close_func=lambda w: finish(qtbot, workbench, w))
        window.show()
        window.docks.show("database")
        qtbot.waitUntil(lambda: len(window.database.listing.rows) == 2)
        assert sorted(shown(window.database, "code")) == ["WGSL", "Wasm"]


def test_filters_that_hide_all_records_say_so_and_are_cleared(panel):
    panel.filter.setText("won")
    panel.filters.facets["state"].setCurrentText("slower")
    assert "hides all 6 rows" in panel.nothing.words.text() and not panel.model.rows
    panel.nothing.button.click()
    assert len(shown(panel)) == 6 and not panel.nothing.isVisible()
    panel.filters.deleted.setChecked(True)
    assert panel.nothing.words.text() == "No record is deleted."
    assert panel.nothing.button.isHidden()


def add(panel, database, *settings):
    """As a session does: the records are stored, then the views are told."""
    workload = panel.window_of_test.session.workbench.model.workloads[0]
    database.add_records([some(workload, name, "slower", 3.0, 9) for name in settings])
    panel.window_of_test.docks.refresh(frozenset({"space"}))


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(dock, "FOLLOW_MS", 0)


@pytest.mark.usefixtures("at_once")
def test_records_of_a_session_are_seen_while_it_runs(qtbot, panel, database):
    """The table said that the database was empty while 58 candidates had been tried."""
    add(panel, database, "s7", "s8")
    qtbot.waitUntil(lambda: shown(panel)[:2] == ["s8", "s7"])
    assert len(shown(panel)) == 8 and panel.count.text().startswith("8 records")
    add(panel, database, "s9")
    qtbot.waitUntil(lambda: len(shown(panel)) == 9)
    assert not database.measurements(after=panel.listing.rows[0].id)
    panel.filter.setText("s9")
    assert shown(panel) == ["s9"]


@pytest.mark.usefixtures("at_once")
def test_new_records_disturb_neither_selection_nor_scroll(qtbot, panel, database):
    add(panel, database, *(f"n{i}" for i in range(300)))
    qtbot.waitUntil(lambda: len(shown(panel)) == 306)
    select(panel, "n100", "n101", "s2")
    panel.view.verticalScrollBar().setValue(150)
    panel.view.horizontalScrollBar().setValue(2)
    top = shown(panel)[150]
    picked = []
    panel.picked.connect(picked.append)
    add(panel, database, "late", "later")
    qtbot.waitUntil(lambda: len(shown(panel)) == 308)
    assert sorted(row.settings for row in panel.selected()) == ["n100", "n101", "s2"]
    assert shown(panel)[panel.view.rowAt(0)] == top and not picked
    assert panel.view.horizontalScrollBar().value() == 2


@pytest.mark.usefixtures("at_once")
def test_at_its_end_a_table_stays_where_it_is_too(qtbot, panel, database):
    add(panel, database, *(f"n{i}" for i in range(60)))
    qtbot.waitUntil(lambda: len(shown(panel)) == 66)
    panel.view.scrollToBottom()
    top = shown(panel)[panel.view.rowAt(0)]
    add(panel, database, *(f"m{i}" for i in range(60)))
    qtbot.waitUntil(lambda: len(shown(panel)) == 126)
    assert shown(panel)[panel.view.rowAt(0)] == top


@pytest.mark.usefixtures("at_once")
def test_a_group_that_is_selected_stays_so(qtbot, panel, database):
    panel.filters.mode_chooser.setCurrentText("Best by device")
    panel.view.selectRow(1)
    add(panel, database, "s7")
    qtbot.waitUntil(lambda: shown(panel, "records") == ["5", "2"])
    assert [row.device for row in panel.selected()] == ["m2-8c"]


def test_a_session_is_followed_after_a_pause_and_only_in_sight(qtbot, panel, database, monkeypatch):
    settle(qtbot, panel)
    qtbot.waitUntil(lambda: not panel._pause.isActive())
    reads = []
    monkeypatch.setattr(panel.store, "follow", lambda: reads.append(len(reads)))
    for _ in range(20):
        panel.refresh(frozenset({"space"}))
    assert len(reads) == 1
    panel._pause.timeout.emit()
    assert len(reads) == 1  # its time is not over
    panel._pause.stop()
    panel._pause.timeout.emit()
    assert len(reads) == 2  # what came since
    panel._pause.stop()
    panel._pause.timeout.emit()
    assert len(reads) == 2  # nothing did
    panel.window_of_test.docks.show("log")
    panel._pause.stop()
    panel.refresh(frozenset({"space"}))
    assert len(reads) == 2
    panel.window_of_test.docks.show("database")
    assert len(reads) == 3


def test_an_empty_database_says_how_it_is_filled(window):
    window.docks.show("database")
    window.database.render_rows()
    assert "tuning (F5)" in window.database.nothing.words.text()


def test_a_chooser_of_records_without_a_choice_takes_no_room(panel):
    assert {n for n, combo in panel.filters.facets.items() if not combo.isHidden()} == {
        name for name, values in panel.listing.values.items() if len(values) > 1
    }
    assert (
        panel.filters.facets["target"].isHidden() and not panel.filters.facets["state"].isHidden()
    )


def test_a_database_that_is_not_read_yet_has_no_choosers_without_a_choice(qtbot):
    """Five of them stood there, empty and without a name."""
    filters = RecordFilters()
    qtbot.addWidget(filters)
    filters.show()
    assert not any(combo.isVisible() for combo in filters.facets.values())


def test_the_count_of_records_is_read_at_the_width_of_a_small_window(qtbot, panel):
    """ "22…" stood there at 1280x720."""
    panel.count.setText("22,345 records of 18 workloads, newest first")
    panel.resize(552, 200)
    panel.show()
    assert panel.count.shown().startswith("22,345 records")
