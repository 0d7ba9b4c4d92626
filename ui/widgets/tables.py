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
    QHeaderView,
    QLineEdit,
    QMenu,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QToolButton,
    QWidget,
)

from nnjit_studio.ui.widgets.nothing_shown import NothingShown
from nnjit_studio.ui.widgets.panel import Panel, hbox, named, scaled_font, tool_button, vbox
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.ui.widgets.tips import plain_tip

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
    room loses its middle, not its end, for names that begin alike. ``in_files`` is the title in
    copies and exports, which have the raw value and so may need a unit; ``hint`` is the tooltip of
    a cell, where it is not the text itself.
    """

    title: str
    value: Callable[[Any], Any]
    text: Callable[[Any], str] = str
    numeric: bool = False
    tip: str = ""
    width: int = 80
    tone: Callable[[Any], str] | None = None
    middle: bool = False
    in_files: str = ""
    hint: Callable[[Any], str] | None = None

    @property
    def file_title(self) -> str:
        return self.in_files or self.title


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
            if role == Qt.ItemDataRole.ToolTipRole and column.hint is not None:
                return plain_tip(column.hint(row))
            text = column.text(column.value(row))
            if role == Qt.ItemDataRole.DisplayRole:
                return text
            return plain_tip(text) if len(text) > 12 else None
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
        line = " ".join(_searched(c, model.rows[row]) for c in model.columns).lower()
        return all(word in line for word in self._words)


def _searched(column: Column, row: Any) -> str:
    """What a cell shows and what its tooltip says, such as the key of what has a name."""
    shown = column.text(column.value(row))
    return shown if column.hint is None else f"{shown} {column.hint(row)}"


class OwnOrder(QIdentityProxyModel):
    """Leaves rows in the model's order and passes on the order that is wanted.

    Qt's sorting proxy asks Python for two values at each comparison; sorting 10,000 rows by it
    takes half a second, sorting the list itself milliseconds.
    """

    wanted = Signal(int, Qt.SortOrder)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.wanted.emit(column, order)

    def set_filter(self, words: str) -> None:
        """The panel filters."""


def missing(value: Any) -> bool:
    """Whether a cell has nothing to sort by or to export."""
    return value is None or (isinstance(value, float) and math.isnan(value))


class _MiddleElided(QStyledItemDelegate):
    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.textElideMode = Qt.TextElideMode.ElideMiddle


class TablePanel(Panel):
    """A table with its filter field and buttons; rows copy in each of :data:`FORMATS`.

    ``proxy`` stands between rows and view; by default it sorts and filters.
    """

    picked = Signal(object)
    """The one row that is selected now."""

    def __init__(
        self,
        title: str,
        columns: Sequence[Column],
        theme: Theme,
        proxy: RowsProxy | OwnOrder | None = None,
    ) -> None:
        super().__init__()
        self.model = RowsModel(columns, theme)
        self.proxy = proxy or RowsProxy()
        self.proxy.setSourceModel(self.model)
        self.view = named(QTableView(), title)
        self._dress_view()
        self.filter = named(QLineEdit(placeholderText="Filter rows"), f"{title}: filter")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(240)
        self.filter.textChanged.connect(self.proxy.set_filter)
        self.copy_button = self._copy_button(title)
        self.bar = hbox(None, self.filter, self.copy_button, margins=(8, 6, 8, 4))
        self.box = vbox(self.bar, (self.view, 1), on=self)
        self.nothing = NothingShown(self.view, title, self.clear_filters)
        rows = self.proxy
        for told in (rows.rowsInserted, rows.rowsRemoved, rows.modelReset, rows.layoutChanged):
            told.connect(lambda *_: self.tell_nothing())

    def hidden_rows(self) -> int:
        """How many rows filters hide, if they hide all; 0 where a row is shown."""
        return 0 if self.proxy.rowCount() else len(self.model.rows)

    def clear_filters(self) -> None:
        """Show every row again."""
        self.filter.clear()

    def tell_nothing(self) -> None:
        """Say it where filters hide all rows."""
        hidden = self.hidden_rows()
        self.nothing.say(f"The filter hides all {hidden:,} rows." if hidden else "", bool(hidden))

    def _dress_view(self) -> None:
        view = self.view
        view.setModel(self.proxy)
        view.setSortingEnabled(True)
        view.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        view.setTabKeyNavigation(False)  # Tab goes on to the next control
        view.setAlternatingRowColors(True)
        view.setShowGrid(False)
        view.setWordWrap(False)
        view.setFont(scaled_font(view.font(), 0.95))
        view.verticalHeader().hide()
        view.verticalHeader().setDefaultSectionSize(view.fontMetrics().height() + 7)
        view.selectionModel().selectionChanged.connect(self._pick)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        header = view.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(True)
        self._at_end, self._in_middle = QStyledItemDelegate(view), _MiddleElided(view)
        self._set_widths()

    def _copy_button(self, title: str) -> QToolButton:
        button = tool_button(
            "Copy",
            f"{title}: copy",
            "Copy the selected rows, or all, as TSV (Ctrl+C); the arrow has other forms and a file",
        )
        button.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        button.clicked.connect(lambda: self.copy())
        menu = named(QMenu(button), f"{title}: copy as")
        button.setMenu(menu)
        for name, (dialect, keys) in FORMATS.items():
            action = menu.addAction(f"Copy as {name}")
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
            action.triggered.connect(lambda _=False, dialect=dialect: self.copy(dialect))
            self.view.addAction(action)
        menu.addSeparator()
        self.export_action = menu.addAction("Export all shown rows, CSV…")
        return button

    def lead(self, *widgets: QWidget) -> None:
        """Put widgets in front of the filter; the last one takes the room there is."""
        self.bar.takeAt(0)
        for place, widget in enumerate(widgets):
            self.bar.insertWidget(place, widget, int(widget is widgets[-1]))

    def set_theme(self, theme: Theme) -> None:
        self.model.set_theme(theme)

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show other columns, of no rows yet."""
        self.model.set_columns(columns)
        self._set_widths()

    def _set_widths(self) -> None:
        for i, column in enumerate(self.model.columns):
            self.view.setColumnWidth(i, column.width)
            self.view.setItemDelegateForColumn(
                i, self._in_middle if column.middle else self._at_end
            )

    def row_at(self, index: Index) -> Any:
        """The row of an index of the view."""
        return self.model.rows[self.proxy.mapToSource(index).row()]

    def select_row(self, wanted: Callable[[Any], bool]) -> bool:
        """Select the first row, in the order shown, that is wanted; False when there is none.

        A filter that hides it is cleared.
        """
        if not any(wanted(row) for row in self.model.rows):
            return False
        for _ in range(2):
            for place in range(self.proxy.rowCount()):
                index = self.proxy.index(place, 0)
                if wanted(self.row_at(index)):
                    self.view.clearSelection()
                    self.view.selectRow(place)
                    self.view.scrollTo(index)
                    return True
            self.filter.clear()
        return False

    def _pick(self) -> None:
        rows = self.view.selectionModel().selectedRows()
        if len(rows) == 1:
            self.picked.emit(self.row_at(rows[0]))

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
        sources = [self.row_at(self.proxy.index(row, 0)) for row in rows]
        if dialect == MARKDOWN:
            return _markdown(columns, sources)
        out = io.StringIO()
        writer = csv.writer(out, dialect, lineterminator="\n")
        writer.writerow([column.file_title for column in columns])
        for source in sources:
            cells = [column.value(source) for column in columns]
            writer.writerow(["" if missing(cell) else cell for cell in cells])
        return out.getvalue()

    def copy(self, dialect: str = "excel-tab") -> None:
        """Put the selected rows, or all, on the clipboard."""
        QGuiApplication.clipboard().setText(self.as_text(self.selected_rows(), dialect))

    def export_csv(self, path: Path) -> None:
        """Write all shown rows, in the order shown."""
        rows = range(self.proxy.rowCount())
        path.write_text(self.as_text(rows, "excel"), encoding="utf-8")


def _markdown(columns: Sequence[Column], rows: Sequence[Any]) -> str:
    """A table with aligned numbers; a pipe or a line break in a cell stays in its cell."""
    lines = [[column.file_title for column in columns]]
    lines.append(["--:" if column.numeric else "---" for column in columns])
    lines += [[column.text(column.value(row)) for column in columns] for row in rows]
    cells = ([" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)
