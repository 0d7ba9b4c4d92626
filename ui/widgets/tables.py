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
RAW_ROLE = Qt.ItemDataRole.UserRole
"""Of a cell: its value, not its text."""
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
    """Rows by columns: the wanted ones, sorted by raw value, those without one always last.

    Rows are sorted as a list: Qt's sorting proxy asks Python for two values at each comparison,
    which takes half a second for 10,000 rows. A selection survives another order.
    """

    def __init__(
        self, columns: Sequence[Column], theme: Theme, wants: Callable[[Any], bool]
    ) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self.rows: list[Any] = []
        self.theme = theme
        self._wants = wants
        self._places: list[int] = []
        self._order = (-1, Qt.SortOrder.AscendingOrder)

    @property
    def shown(self) -> list[Any]:
        """The rows in sight, in their order."""
        return [self.rows[place] for place in self._places]

    def row_at(self, index: Index) -> Any:
        return self.rows[self._places[index.row()]]

    def set_rows(self, rows: Sequence[Any], keep: bool = True) -> None:
        """Show these rows; with ``keep``, rows at equal places count as the same row."""
        new, old = list(rows), self.rows
        if not keep or len(new) < len(old):
            self.beginResetModel()
            self.rows = new
            self._places = self._arranged()
            self.endResetModel()
            return
        self.rows = new
        self.arrange()
        same = len(old)
        changed = [i for i, at in enumerate(self._places) if at < same and new[at] != old[at]]
        if changed:
            ends = self.index(changed[0], 0), self.index(changed[-1], len(self.columns) - 1)
            self.dataChanged.emit(*ends)

    def arrange(self) -> None:
        """Choose and sort the rows again."""
        before, after = self._places, self._arranged()
        if after == before:
            return
        self.layoutAboutToBeChanged.emit()
        self._places, at = after, {place: i for i, place in enumerate(after)}
        old = self.persistentIndexList()
        new = [self.index(at.get(before[i.row()], -1), i.column()) for i in old]
        self.changePersistentIndexList(old, new)
        self.layoutChanged.emit()

    def _arranged(self) -> list[int]:
        places = [place for place, row in enumerate(self.rows) if self._wants(row)]
        column, order = self._order
        if column < 0:
            return places
        values = {place: self.columns[column].value(self.rows[place]) for place in places}
        there = [place for place in places if not missing(values[place])]
        there.sort(key=values.__getitem__, reverse=order == Qt.SortOrder.DescendingOrder)
        return there + [place for place in places if missing(values[place])]

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show other columns, of no rows yet."""
        self.beginResetModel()
        self.columns, self.rows, self._places = tuple(columns), [], []
        self.endResetModel()

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        if self._places:
            end = self.index(len(self._places) - 1, len(self.columns) - 1)
            self.dataChanged.emit(self.index(0, 0), end)

    # Qt asks these by its own names.
    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self._order = (column, order)
        self.arrange()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._places)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        column, row = self.columns[index.column()], self.row_at(index)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            if role == Qt.ItemDataRole.ToolTipRole and column.hint is not None:
                return plain_tip(column.hint(row))
            text = column.text(column.value(row))
            if role == Qt.ItemDataRole.DisplayRole:
                return text
            return plain_tip(text) if len(text) > 12 else None
        if role == RAW_ROLE:
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


def _said(column: Column, row: Any) -> str:
    """What a cell shows and what its tooltip says, such as the key of what has a name."""
    shown = column.text(column.value(row))
    return shown if column.hint is None else f"{shown} {column.hint(row)}"


def missing(value: Any) -> bool:
    """Whether a cell has nothing to sort by or to export."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


class _MiddleElided(QStyledItemDelegate):
    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        option.textElideMode = Qt.TextElideMode.ElideMiddle


class TablePanel(Panel):
    """A table with its filter field and buttons; rows copy in each of :data:`FORMATS`."""

    picked = Signal(object)
    """The one row that is selected now."""

    def __init__(self, title: str, columns: Sequence[Column], theme: Theme) -> None:
        super().__init__()
        self._sought: list[str] = []
        self.model = RowsModel(columns, theme, self.wants)
        self.view = named(QTableView(), title)
        self._dress_view()
        self.filter = named(QLineEdit(placeholderText="Filter rows"), f"{title}: filter")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(240)
        self.filter.textChanged.connect(self.search)
        self.copy_button = self._copy_button(title)
        self.bar = hbox(None, self.filter, self.copy_button, margins=(8, 6, 8, 4))
        self.box = vbox(self.bar, (self.view, 1), on=self)
        self.nothing = NothingShown(self.view, title, self.clear_filters)
        for told in (self.model.modelReset, self.model.layoutChanged):
            told.connect(lambda *_: self.tell_nothing())

    def search(self, text: str) -> None:
        """Show the rows that have all these words."""
        self._sought = text.lower().split()
        self.model.arrange()

    def wants(self, row: Any) -> bool:
        """Whether a row is shown."""
        if not self._sought:
            return True
        line = self.searched(row).lower()
        return all(word in line for word in self._sought)

    def searched(self, row: Any) -> str:
        """What of a row the filter looks at."""
        return " ".join(_said(column, row) for column in self.model.columns)

    def hidden_rows(self) -> int:
        """How many rows filters hide, if they hide all; 0 where a row is shown."""
        return 0 if self.model.rowCount() else len(self.model.rows)

    def clear_filters(self) -> None:
        """Show every row again."""
        self.filter.clear()

    def tell_nothing(self) -> None:
        """Say it where filters hide all rows."""
        hidden = self.hidden_rows()
        self.nothing.say(f"The filter hides all {hidden:,} rows." if hidden else "", bool(hidden))

    def _dress_view(self) -> None:
        view = self.view
        view.setModel(self.model)
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
        """Show other columns, of no rows yet, which are not sorted."""
        self.model.set_columns(columns)
        self.view.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        self._set_widths()

    def _set_widths(self) -> None:
        for i, column in enumerate(self.model.columns):
            self.view.setColumnWidth(i, column.width)
            self.view.setItemDelegateForColumn(
                i, self._in_middle if column.middle else self._at_end
            )

    def row_at(self, index: Index) -> Any:
        """The row of an index of the view."""
        return self.model.row_at(index)

    def select_row(self, wanted: Callable[[Any], bool]) -> bool:
        """Select the first row, in the order shown, that is wanted; False when there is none.

        A filter that hides it is cleared.
        """
        if not any(wanted(row) for row in self.model.rows):
            return False
        for _ in range(2):
            for place, row in enumerate(self.model.shown):
                if wanted(row):
                    self.view.clearSelection()
                    self.view.selectRow(place)
                    self.view.scrollTo(self.model.index(place, 0))
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
        return picked or list(range(self.model.rowCount()))

    def as_text(self, rows: Sequence[int], dialect: str) -> str:
        """Shown rows with a header line.

        ``excel`` is CSV and ``excel-tab`` TSV, both of raw values; ``markdown`` is a table of
        what is shown.
        """
        columns = self.model.columns
        shown = self.model.shown
        sources = [shown[row] for row in rows]
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
        rows = range(self.model.rowCount())
        path.write_text(self.as_text(rows, "excel"), encoding="utf-8")


def _markdown(columns: Sequence[Column], rows: Sequence[Any]) -> str:
    """A table with aligned numbers; a pipe or a line break in a cell stays in its cell."""
    lines = [[column.file_title for column in columns]]
    lines.append(["--:" if column.numeric else "---" for column in columns])
    lines += [[column.text(column.value(row)) for column in columns] for row in rows]
    cells = ([" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)
