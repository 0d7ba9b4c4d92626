"""The kernel database as the window uses it: read, change, import and export, in a thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from nnjit_studio.database import Measurement
from nnjit_studio.errors import UserError
from nnjit_studio.model.readable import words_of
from nnjit_studio.ui.commands.history import Ended, History, UndoStep
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.services import Records
from nnjit_studio.ui.widgets.worker import Worker

FACETS = ("state", "kind", "target", "device", "browser")
"""Fields of a measurement that records are filtered by."""
Change = Callable[[Records], None]


@dataclass(frozen=True)
class Listing:
    """All records, newest first, and what filters need of them.

    ``texts`` holds the words that a search finds, in lower case, one for each row;
    ``values`` holds the values of every facet.
    """

    rows: Sequence[Measurement] = ()
    texts: Sequence[str] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Measurement]) -> Listing:
        texts = [
            f"{r.workload} {r.settings} {r.state} {r.code} {r.tier} {r.target} {r.device} "
            f"{r.browser} {r.created} {r.tags} {r.note} {r.error} "
            f"{words_of(r.workload)}".lower()
            for r in rows
        ]
        values = {name: tuple(sorted({getattr(r, name) for r in rows})) for name in FACETS}
        return cls(rows, texts, values)

    def with_newer(self, rows: Sequence[Measurement]) -> Listing:
        """With these in front: of what was listed nothing is looked at again."""
        new = Listing.of(rows)
        values = {
            name: tuple(sorted({*known, *self.values.get(name, ())}))
            for name, known in new.values.items()
        }
        return Listing([*rows, *self.rows], [*new.texts, *self.texts], values)


@dataclass(frozen=True)
class _Job:
    name: str
    work: Callable[[Callable[[Any], None]], Any]
    then: Callable[[Any], None]
    failed: Callable[[], None] = lambda: None


class RecordStore(QObject):
    """One job after the other on the database; every change is followed by a new listing."""

    listed = Signal(object)
    """``Listing``: The records were read."""
    progressed = Signal(int, int)
    """An import or export has done so many records of so many; both 0 at its end."""
    looked = Signal(object, list)
    """``Path, list of Measurement``: A file was looked into; nothing was added."""
    told = Signal(str)
    """A sentence about something that was done."""
    problem = Signal(object)
    """``JobProblem``: Something was not done."""

    def __init__(self, records: Records, history: History) -> None:
        super().__init__()
        self._records, self._history = records, history
        self._jobs: deque[_Job] = deque()
        self._now: _Job | None = None
        self._known = Listing()  # of the jobs' threads, of which one runs at a time
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

    def follow(self) -> None:
        """Read what was added since, unless everything is about to be read."""
        if not self._jobs:
            self._put(_Job("read", lambda _: self._read_newer(), self._tell_newer))

    def _tell_newer(self, listing: Listing | None) -> None:
        if listing is not None:
            self.listed.emit(listing)

    def delete(self, rows: Sequence[Measurement]) -> None:
        """Put records aside."""
        ids = [row.id for row in rows]
        self._change(f"Deleted {_records(ids)}", lambda r: r.delete(ids), lambda r: r.restore(ids))

    def restore(self, rows: Sequence[Measurement]) -> None:
        """Bring deleted records back."""
        ids = [row.id for row in rows]
        self._change(f"Restored {_records(ids)}", lambda r: r.restore(ids), lambda r: r.delete(ids))

    def annotate(self, rows: Sequence[Measurement], note: str, tags: str) -> None:
        """Give records the same note and tags."""
        before = {row.id: (row.note, row.tags) for row in rows}
        after = {row.id: (note, tags) for row in rows}
        self._change(
            f"Noted on {_records(rows)}", lambda r: r.annotate(after), lambda r: r.annotate(before)
        )

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
            known = "" if count else " The database has all of its records already."
            self.told.emit(f"Added {count:,} records of {path.name}.{known}")

        self._put(_Job("import", work, then))

    def export_to(self, path: Path) -> None:
        """Write all records that are not deleted to a file, by its ending."""

        def work(emit: Callable[[Any], None]) -> int:
            return self._records.export_to(path, on_progress=self._progress(emit))

        self._put(_Job("export", work, lambda n: self.told.emit(f"Wrote {n:,} records: {path}")))

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
        self._known = Listing.of(self._records.measurements())
        return self._known

    def _read_newer(self) -> Listing | None:
        """None where nothing was added."""
        last = self._known.rows[0].id if self._known.rows else 0
        if not (rows := self._records.measurements(after=last)):
            return None
        self._known = self._known.with_newer(rows)
        return self._known

    def _change(self, done: str, do: Change, undo: Change) -> None:
        self._history.do(UndoStep(done, partial(self._apply, do), partial(self._apply, undo)))

    def _apply(self, change: Change, ended: Ended) -> None:
        def work(_: object) -> Listing:
            change(self._records)
            return self._read()

        def then(listing: Listing) -> None:
            self.listed.emit(listing)
            ended(True)

        self._put(_Job("change", work, then, lambda: ended(False)))

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
        assert self._now is not None
        self.progressed.emit(0, 0)
        self._now.failed()
        self.problem.emit(JobProblem.of(f"records: {name}", error))
        self._next()


def _records(things: Sequence[Any]) -> str:
    return f"{len(things):,} record{'s' if len(things) != 1 else ''}"
