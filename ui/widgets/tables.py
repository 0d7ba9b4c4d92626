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
    QIdentityProxyModel,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QGuiApplication, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QMenu,
    QPushButton,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio.ui.widgets.theme import Theme, named, panel, scaled_font

Index = QModelIndex | QPersistentModelIndex
SORT_ROLE = Qt.ItemDataRole.UserRole
MARKDOWN = "markdown"
FORMATS = {
    "TSV": ("excel-tab", "Ctrl+C"),
    "CSV": ("excel", "Ctrl+Alt+C"),
    "Markdown": (MARKDOWN, "Ctrl+Shift+C"),
}
"""Name, dialect of :meth:`TablePanel.as_text` and shortcut of what a table copies as."""
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True)
class Column:
    """One column: its raw value (sorted, exported) and its text (shown, filtered).

    ``tone`` gives the theme's colour token of a cell, such as ``good``. ``middle``: what has no
    room loses its middle, not its end, for names that begin alike.
    """

    title: str
    value: Callable[[Any], Any]
    text: Callable[[Any], str] = str
    numeric: bool = False
    tip: str = ""
    width: int = 80
    tone: Callable[[Any], str] | None = None
    middle: bool = False


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

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show other columns, of no rows yet."""
        self.beginResetModel()
        self.columns, self.rows = tuple(columns), []
        self.endResetModel()

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
        if missing(a) or missing(b):
            if missing(a) and missing(b):
                return False
            return descending if missing(a) else not descending
        return bool(a < b)

    def filterAcceptsRow(self, row: int, parent: Index) -> bool:
        if not self._words:
            return True
        model = self.sourceModel()
        assert isinstance(model, RowsModel)
        line = " ".join(c.text(c.value(model.rows[row])) for c in model.columns).lower()
        return all(word in line for word in self._words)


def missing(value: Any) -> bool:
    """Whether a cell has nothing to sort by or to export."""
    return value is None or (isinstance(value, float) and math.isnan(value))


class _MiddleElided(QStyledItemDelegate):
    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.textElideMode = Qt.TextElideMode.ElideMiddle


class TablePanel(QWidget):
    """A table with its filter field and buttons; rows copy in each of :data:`FORMATS`.

    ``proxy`` stands between rows and view; by default it sorts and filters.

    Signals
    -------
    picked(object)
        The one row that is selected now.
    """

    picked = Signal(object)

    def __init__(
        self,
        title: str,
        columns: Sequence[Column],
        theme: Theme,
        proxy: RowsProxy | QIdentityProxyModel | None = None,
    ) -> None:
        super().__init__()
        panel(self)
        self.model = RowsModel(columns, theme)
        self.proxy = proxy or RowsProxy()
        self.proxy.setSourceModel(self.model)
        self.view = named(QTableView(), title)
        self._middle = _MiddleElided(self.view)
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
        self._set_widths()
        self.filter = named(QLineEdit(placeholderText="Filter rows"), f"{title}: filter")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(240)
        self.filter.textChanged.connect(self.proxy.set_filter)
        self.copy_button = named(
            QToolButton(text="Copy"),
            f"{title}: copy",
            "Copy the selected rows, or all, as TSV (Ctrl+C); the arrow has CSV and Markdown",
        )
        self.copy_button.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        self.copy_button.clicked.connect(self.copy)
        menu = named(QMenu(self.copy_button), f"{title}: copy as")
        self.copy_button.setMenu(menu)
        for name, (dialect, keys) in FORMATS.items():
            action = menu.addAction(f"Copy as {name}")
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            action.triggered.connect(lambda _=False, dialect=dialect: self.copy(dialect))
            self.view.addAction(action)
        self.view.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
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

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show other columns, of no rows yet."""
        self.model.set_columns(columns)
        self._set_widths()

    def _set_widths(self) -> None:
        for i, column in enumerate(self.model.columns):
            self.view.setColumnWidth(i, column.width)
            self.view.setItemDelegateForColumn(i, self._middle if column.middle else None)

    def _pick(self) -> None:
        rows = self.view.selectionModel().selectedRows()
        if len(rows) == 1:
            self.picked.emit(self.model.rows[self.proxy.mapToSource(rows[0]).row()])

    def selected_rows(self) -> list[int]:
        """Places, in the order shown, of the selected rows, or of all when none is selected."""
        picked = sorted({index.row() for index in self.view.selectionModel().selectedRows()})
        return picked or list(range(self.proxy.rowCount()))

    def as_text(self, rows: Sequence[int], dialect: str) -> str:
        """Shown rows with a header line.

        ``excel`` is CSV and ``excel-tab`` TSV, both of raw values; ``markdown`` is a table of
        what is shown.
        """
        columns = self.model.columns
        sources = [
            self.model.rows[self.proxy.mapToSource(self.proxy.index(row, 0)).row()] for row in rows
        ]
        if dialect == MARKDOWN:
            return _markdown(columns, sources)
        out = io.StringIO()
        writer = csv.writer(out, dialect, lineterminator="\n")
        writer.writerow([column.title for column in columns])
        for source in sources:
            cells = [column.value(source) for column in columns]
            writer.writerow(["" if missing(cell) else cell for cell in cells])
        return out.getvalue()

    def copy(self, dialect: str | bool = "") -> None:
        """Put the selected rows, or all, on the clipboard; as TSV unless a dialect is named."""
        chosen = dialect if isinstance(dialect, str) and dialect else "excel-tab"
        QGuiApplication.clipboard().setText(self.as_text(self.selected_rows(), chosen))

    def export_csv(self, path: Path) -> None:
        """Write all shown rows, in the order shown."""
        rows = range(self.proxy.rowCount())
        path.write_text(self.as_text(rows, "excel"), encoding="utf-8")


def _markdown(columns: Sequence[Column], rows: Sequence[Any]) -> str:
    """A table with aligned numbers; a pipe or a line break in a cell stays in its cell."""
    lines = [[column.title for column in columns]]
    lines.append(["--:" if column.numeric else "---" for column in columns])
    lines += [[column.text(column.value(row)) for column in columns] for row in rows]
    cells = ([" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)
