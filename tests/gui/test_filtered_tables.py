"""A table without rows says why, and offers to clear the filter that hides them."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from nnjit_studio.ui.wasm.long_table import LongTable
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import LIGHT

COLUMNS = (Column("name", str),)


@pytest.fixture(params=["short", "long"])
def table(request, qtbot):
    made = (TablePanel if request.param == "short" else LongTable)("Names", COLUMNS, LIGHT)
    rows = [f"row {i}" for i in range(1200)]
    if isinstance(made, LongTable):
        made.show_all(rows, -1, Qt.SortOrder.AscendingOrder)
    else:
        made.model.set_rows(rows)
    qtbot.addWidget(made)
    made.show()
    return made


def test_a_table_whose_rows_are_all_hidden_says_so_and_shows_them_again(table):
    assert not table.nothing.isVisible()
    table.filter.setText("nothing like it")
    assert table.nothing.isVisible() and "hides all 1,200 rows" in table.nothing.words.text()
    assert table.nothing.geometry() == table.view.viewport().rect()
    table.nothing.button.click()
    assert table.proxy.rowCount() == 1200 and not table.filter.text()
    assert not table.nothing.isVisible()


def test_a_filter_that_leaves_a_row_and_a_table_without_rows_say_nothing(table):
    table.filter.setText("row 1199")
    assert table.proxy.rowCount() == 1 and not table.nothing.isVisible()
