"""Plain text tables for people, and comma-separated ones for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Sequence

_WIDTH = 10_000
"""Columns of the page: more than any table has, so that no cell is cut or broken."""


def text_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], left: Collection[int] = (0,)
) -> str:
    """Rows under their titles, two spaces between columns, no colours, no lines.

    The result is the same on a terminal, in a pipe and in a test.

    Parameters
    ----------
    columns
        Titles; when all are empty, there is no line of titles.
    rows
        As many cells as there are titles, each written with ``str``; None is an empty cell.
    left
        Indices of the columns with text, which are aligned left; numbers are aligned right.

    Returns
    -------
    str
        One line for each row, without a newline at the end.
    """
    # Most commands print no table, and starts wait for every import.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=any(columns))
    for i, title in enumerate(columns):
        justify = "left" if i in left else "right"
        table.add_column(Text(title), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    out = io.StringIO()
    Console(file=out, width=_WIDTH, color_system=None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows under their titles, one line each."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((columns, *rows))
    return out.getvalue()
