"""Tables over frozen rows: sort, filter, copy, export."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio.ui.theme import Theme, named, panel, scaled_font

Index = QModelIndex | QPersistentModelIndex
SORT_ROLE = Qt.ItemDataRole.UserRole
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True)
class Column:
    """One column: its raw value (sorted, exported) and its text (shown, filtered).

    ``tone`` gives the theme's colour token of a cell, such as ``good``.
    """

    title: str
    value: Callable[[Any], Any]
    text: Callable[[Any], str] = str
    numeric: bool = False
    tip: str = ""
    width: int = 80
    tone: Callable[[Any], str] | None = None


class RowsModel(QAbstractTableModel):
    """Rows by columns. Changed rows are told one by one, so selections survive."""

    def __init__(self, columns: Sequence[Column], theme: Theme) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self.rows: list[Any] = []
        self.theme = theme

    def set_rows(self, rows: Sequence[Any], keep: bool = True) -> None:
        """Show these rows; with ``keep``, rows at equal places count as the same row."""
        new, old = list(rows), self.rows
        last = len(self.columns) - 1
        if not keep or len(new) < len(old):
            self.beginResetModel()
            self.rows = new
            self.endResetModel()
            return
        if len(new) > len(old):
            self.beginInsertRows(QModelIndex(), len(old), len(new) - 1)
            self.rows = old + new[len(old) :]
            self.endInsertRows()
        for i, row in enumerate(new[: len(old)]):
            if row != old[i]:
                self.rows[i] = row
                self.dataChanged.emit(self.index(i, 0), self.index(i, last))

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        if self.rows:
            end = self.index(len(self.rows) - 1, len(self.columns) - 1)
            self.dataChanged.emit(self.index(0, 0), end)

    # Qt asks these by its own names.
    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        column, row = self.columns[index.column()], self.rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            text = column.text(column.value(row))
            return text if role == Qt.ItemDataRole.DisplayRole or len(text) > 12 else None
        if role == SORT_ROLE:
            return column.value(row)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if column.numeric else _LEFT
        if role == Qt.ItemDataRole.ForegroundRole and column.tone is not None:
            token = column.tone(row)
            return QColor(getattr(self.theme, token)) if token else None
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation == Qt.Orientation.Vertical:
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.tip or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if column.numeric else _LEFT
        return None


class RowsProxy(QSortFilterProxyModel):
    """Sorts by raw value, rows without one always last; filters by all words in any column."""

    def __init__(self) -> None:
        super().__init__()
        self.setSortRole(SORT_ROLE)
        self._words: tuple[str, ...] = ()

    def set_filter(self, text: str) -> None:
        self._words = tuple(text.lower().split())
        self.invalidate()

    def lessThan(self, left: Index, right: Index) -> bool:
        a, b = left.data(SORT_ROLE), right.data(SORT_ROLE)
        descending = self.sortOrder() == Qt.SortOrder.DescendingOrder
        if _missing(a) or _missing(b):
            if _missing(a) and _missing(b):
                return False
            return descending if _missing(a) else not descending
        return bool(a < b)

    def filterAcceptsRow(self, row: int, parent: Index) -> bool:
        if not self._words:
            return True
        model = self.sourceModel()
        assert isinstance(model, RowsModel)
        line = " ".join(c.text(c.value(model.rows[row])) for c in model.columns).lower()
        return all(word in line for word in self._words)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


class TablePanel(QWidget):
    """A table with its filter field and buttons; Ctrl+C copies rows as TSV.

    Signals
    -------
    picked(object)
        The one row that is selected now.
    """

    picked = Signal(object)

    def __init__(self, title: str, columns: Sequence[Column], theme: Theme) -> None:
        super().__init__()
        panel(self)
        self.model = RowsModel(columns, theme)
        self.proxy = RowsProxy()
        self.proxy.setSourceModel(self.model)
        self.view = named(QTableView(), title)
        self.view.setModel(self.proxy)
        self.view.setSortingEnabled(True)
        self.view.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        self.view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.view.setAlternatingRowColors(True)
        self.view.setShowGrid(False)
        self.view.setWordWrap(False)
        self.view.setFont(scaled_font(self.view.font(), 0.95))
        self.view.verticalHeader().hide()
        self.view.verticalHeader().setDefaultSectionSize(self.view.fontMetrics().height() + 7)
        self.view.selectionModel().selectionChanged.connect(self._pick)
        header = self.view.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)
        for i, column in enumerate(columns):
            self.view.setColumnWidth(i, column.width)
        self.filter = named(QLineEdit(placeholderText="Filter rows"), f"{title}: filter")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(240)
        self.filter.textChanged.connect(self.proxy.set_filter)
        self.copy_button = named(
            QPushButton("Copy"), f"{title}: copy", "Copy the selected rows, or all, as TSV (Ctrl+C)"
        )
        self.copy_button.clicked.connect(self.copy)
        self.export_button = named(
            QPushButton("Export CSV…"), f"{title}: export CSV", "Write all shown rows to a CSV file"
        )
        self.bar = QHBoxLayout()
        self.bar.setContentsMargins(8, 6, 8, 4)
        self.bar.setSpacing(6)
        self.bar.addStretch(1)
        for widget in (self.filter, self.copy_button, self.export_button):
            self.bar.addWidget(widget)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(self.bar)
        layout.addWidget(self.view, 1)
        shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), self.view)
        shortcut.setContext(Qt.ShortcutContext.WidgetShortcut)
        shortcut.activated.connect(self.copy)

    def _pick(self) -> None:
        rows = self.view.selectionModel().selectedRows()
        if len(rows) == 1:
            self.picked.emit(self.model.rows[self.proxy.mapToSource(rows[0]).row()])

    def selected_rows(self) -> list[int]:
        """Places, in the order shown, of the selected rows, or of all when none is selected."""
        picked = sorted({index.row() for index in self.view.selectionModel().selectedRows()})
        return picked or list(range(self.proxy.rowCount()))

    def as_text(self, rows: Sequence[int], dialect: str) -> str:
        """Raw values of shown rows with a header line; ``excel`` is CSV, ``excel-tab`` TSV."""
        out = io.StringIO()
        writer = csv.writer(out, dialect, lineterminator="\n")
        writer.writerow([column.title for column in self.model.columns])
        for row in rows:
            source = self.model.rows[self.proxy.mapToSource(self.proxy.index(row, 0)).row()]
            cells = [column.value(source) for column in self.model.columns]
            writer.writerow(["" if _missing(cell) else cell for cell in cells])
        return out.getvalue()

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.as_text(self.selected_rows(), "excel-tab"))

    def export_csv(self, path: Path) -> None:
        """Write all shown rows, in the order shown."""
        rows = range(self.proxy.rowCount())
        path.write_text(self.as_text(rows, "excel"), encoding="utf-8")
