"""Which rows of a table are in sight, in which order, and what is said where there are none."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import LIGHT

NAME, MS = range(2)
COLUMNS = (Column("name", lambda row: row[0]), Column("ms", lambda row: row[1], numeric=True))
UP, DOWN = Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder


@pytest.fixture
def table(qtbot):
    made = TablePanel("Names", COLUMNS, LIGHT)
    made.model.set_rows([(f"row {i}", i) for i in range(1200)])
    qtbot.addWidget(made)
    made.show()
    return made


def names(table):
    return [row[0] for row in table.model.shown]


def test_a_table_whose_rows_are_all_hidden_says_so_and_shows_them_again(table):
    assert not table.nothing.isVisible()
    table.filter.setText("nothing like it")
    assert table.nothing.isVisible() and "hides all 1,200 rows" in table.nothing.words.text()
    assert table.nothing.geometry() == table.view.viewport().rect()
    table.nothing.button.click()
    assert table.model.rowCount() == 1200 and not table.filter.text()
    assert not table.nothing.isVisible()


def test_a_filter_that_leaves_a_row_and_a_table_without_rows_say_nothing(table):
    table.filter.setText("row 1199")
    assert table.model.rowCount() == 1 and not table.nothing.isVisible()


def test_rows_without_a_value_are_last_in_either_order(table):
    rows = [("none", None), ("two", 2.0), ("nan", float("nan")), ("one", 1.0), ("empty", "")]
    table.model.set_rows(rows, keep=False)
    table.view.sortByColumn(MS, UP)
    assert names(table) == ["one", "two", "none", "nan", "empty"]
    table.view.sortByColumn(MS, DOWN)
    assert names(table) == ["two", "one", "none", "nan", "empty"]
    table.view.sortByColumn(-1, UP)
    assert names(table) == [name for name, _ in rows]


def test_the_selected_row_stays_selected_in_another_order_with_another_value_and_with_more_rows(
    table,
):
    table.model.set_rows([("a", 3), ("b", 2), ("c", 1)], keep=False)
    table.view.sortByColumn(MS, UP)
    table.select_row(lambda row: row[0] == "c")
    assert [i.row() for i in table.view.selectionModel().selectedRows()] == [0]
    table.model.set_rows([("a", 3), ("b", 2), ("c", 9), ("d", 5)])
    assert names(table) == ["b", "a", "d", "c"]
    (index,) = table.view.selectionModel().selectedRows()
    assert index.row() == 3 and table.row_at(index) == ("c", 9)
    table.filter.setText("c")
    (index,) = table.view.selectionModel().selectedRows()
    assert index.row() == 0 and index.data() == "c"
    table.filter.setText("d")
    assert not table.view.selectionModel().selectedRows()
