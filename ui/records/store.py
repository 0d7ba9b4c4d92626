"""The kernel database as the window uses it: read, change, undo, import and export, in a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from nnjit_studio.database import Measurement
from nnjit_studio.errors import UserError
from nnjit_studio.ui.state.services import Records
from nnjit_studio.ui.state.session import Problem
from nnjit_studio.ui.widgets.worker import Worker

FACETS = ("state", "kind", "target", "device", "browser")
"""Fields of a measurement that records are filtered by."""


@dataclass(frozen=True)
class Listing:
    """All records, newest first, and what filters need of them.

    ``texts`` is what a search looks through, in lower case, one for each row;
    ``values`` holds the values of every facet.
    """

    rows: Sequence[Measurement] = ()
    texts: Sequence[str] = ()
    values: Mapping[str, tuple[str, ...]] = ()  # type: ignore[assignment]

    @classmethod
    def of(cls, rows: Sequence[Measurement]) -> Listing:
        texts = [
            f"{r.workload} {r.settings} {r.state} {r.code} {r.tier} {r.target} {r.device} "
            f"{r.browser} {r.created} {r.tags} {r.note} {r.error}".lower()
            for r in rows
        ]
        values = {name: tuple(sorted({getattr(r, name) for r in rows})) for name in FACETS}
        return cls(rows, texts, values)


@dataclass(frozen=True)
class Change:
    """Something done that can be taken back; ``done`` says it in the past tense.

    ``do`` and ``undo`` change records, in a thread.
    """

    done: str
    do: Callable[[Records], None]
    undo: Callable[[Records], None]


@dataclass(frozen=True)
class WindowChange:
    """The same of the window itself, done at once."""

    done: str
    do: Callable[[], object]
    undo: Callable[[], object]


@dataclass(frozen=True)
class _Job:
    name: str
    work: Callable[[Callable[[Any], None]], Any]
    then: Callable[[Any], None]


class RecordStore(QObject):
    """One job after the other on the database; every change is followed by a new listing.

    Signals
    -------
    listed(Listing)
        The records were read.
    progressed(int, int)
        An import or export has done so many records of so many; both 0 at its end.
    looked(Path, list of Measurement)
        A file was looked into; nothing was added.
    said(str)
        Something was done: one sentence.
    problem(Problem)
        Something was not done.
    undo_changed()
        :attr:`done` or :attr:`undone` changed.
    """

    listed = Signal(object)
    progressed = Signal(int, int)
    looked = Signal(object, list)
    said = Signal(str)
    problem = Signal(object)
    undo_changed = Signal()

    def __init__(self, records: Records, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._records = records
        self.done: list[Change | WindowChange] = []
        self.undone: list[Change | WindowChange] = []
        self._jobs: deque[_Job] = deque()
        self._now: _Job | None = None
        self._stop = threading.Event()
        self._worker = Worker(self)
        self._worker.yielded.connect(lambda items: self.progressed.emit(*items[-1]))
        self._worker.returned.connect(self._returned)
        self._worker.failed.connect(self._failed)

    @property
    def job(self) -> str:
        """What is being done, empty when nothing is."""
        return self._worker.job

    def refresh(self) -> None:
        """Read the records, unless that is about to happen anyway."""
        if not self._jobs:
            self._put(_Job("read", lambda _: self._read(), self.listed.emit))

    def delete(self, rows: Sequence[Measurement]) -> None:
        """Put records aside."""
        ids = [row.id for row in rows]
        self._change(
            Change(f"Deleted {_records(ids)}", lambda r: r.delete(ids), lambda r: r.restore(ids))
        )

    def restore(self, rows: Sequence[Measurement]) -> None:
        """Bring deleted records back."""
        ids = [row.id for row in rows]
        self._change(
            Change(f"Restored {_records(ids)}", lambda r: r.restore(ids), lambda r: r.delete(ids))
        )

    def annotate(self, rows: Sequence[Measurement], note: str, tags: str) -> None:
        """Give records the same note and tags."""
        before = {row.id: (row.note, row.tags) for row in rows}
        after = {row.id: (note, tags) for row in rows}
        self._change(
            Change(
                f"Noted on {_records(rows)}",
                lambda r: r.annotate(after),
                lambda r: r.annotate(before),
            )
        )

    def change_window(self, change: WindowChange) -> None:
        """Do something to the window that :meth:`undo` takes back, among changes of records."""
        self.undone.clear()
        self._move(change, None, self.done, back=False)

    def undo(self) -> None:
        """Take the latest change back."""
        if self.done:
            self._move(self.done.pop(), self.done, self.undone, back=True)

    def redo(self) -> None:
        """Do what was taken back once more."""
        if self.undone:
            self._move(self.undone.pop(), self.undone, self.done, back=False)

    def look_into(self, path: Path) -> None:
        """Read what a file holds, without adding it."""
        self._put(
            _Job(
                "look",
                lambda _: self._records.look_into(path),
                lambda rows: self.looked.emit(path, rows),
            )
        )

    def import_from(self, path: Path) -> None:
        """Add the records of a file; all of them or none."""

        def work(emit: Callable[[Any], None]) -> tuple[int, Listing]:
            return self._records.import_from(path, self._progress(emit)), self._read()

        def then(result: tuple[int, Listing]) -> None:
            count, listing = result
            self.listed.emit(listing)
            known = "" if count else " All that it holds is here already."
            self.said.emit(f"Added {count:,} records of {path.name}.{known}")

        self._put(_Job("import", work, then))

    def export_to(self, path: Path) -> None:
        """Write all records that are not deleted to a file, by its ending."""

        def work(emit: Callable[[Any], None]) -> int:
            return self._records.export_to(path, on_progress=self._progress(emit))

        self._put(_Job("export", work, lambda n: self.said.emit(f"Wrote {n:,} records: {path}")))

    def cancel(self) -> None:
        """End an import or export; nothing of it stays."""
        self._stop.set()

    def _progress(self, emit: Callable[[Any], None]) -> Callable[[int, int], None]:
        def on_progress(done: int, total: int) -> None:
            if self._stop.is_set():
                raise UserError("It was stopped: nothing was changed.")
            emit((done, total))

        return on_progress

    def _read(self) -> Listing:
        return Listing.of(self._records.measurements())

    def _change(self, change: Change) -> None:
        self.undone.clear()
        self._move(change, None, self.done, back=False)

    def _move(
        self,
        change: Change | WindowChange,
        source: list[Change | WindowChange] | None,
        goal: list[Change | WindowChange],
        back: bool,
    ) -> None:
        def done() -> None:
            goal.append(change)
            self.undo_changed.emit()
            self.said.emit(
                f"Taken back: {change.done[:1].lower()}{change.done[1:]}."
                if back
                else f"{change.done}. Ctrl+Z takes it back."
            )

        if isinstance(change, WindowChange):
            (change.undo if back else change.do)()
            done()
            return

        def work(_: object) -> Listing:
            try:
                (change.undo if back else change.do)(self._records)
            except BaseException:
                if source is not None:
                    source.append(change)
                raise
            return self._read()

        def then(listing: Listing) -> None:
            self.listed.emit(listing)
            done()

        self.undo_changed.emit()
        self._put(_Job("change", work, then))

    def _put(self, job: _Job) -> None:
        self._jobs.append(job)
        self._next()

    def _next(self) -> None:
        if self._jobs and not self._worker.job:
            self._now = self._jobs.popleft()
            self._stop.clear()
            self._worker.start(self._now.name, self._now.work)

    def _returned(self, name: str, result: Any) -> None:
        assert self._now is not None
        self.progressed.emit(0, 0)
        self._now.then(result)
        self._next()

    def _failed(self, name: str, error: BaseException) -> None:
        self.progressed.emit(0, 0)
        self.undo_changed.emit()
        self.problem.emit(Problem.of(f"records: {name}", error))
        self._next()


def _records(things: Sequence[Any]) -> str:
    return f"{len(things):,} record{'s' if len(things) != 1 else ''}"
