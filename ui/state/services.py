"""Protocols of things that tests play for the window.

All else that it drives is a :class:`~nnjit_studio.workbench.Workbench`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nnjit_studio.database import Measurement
from nnjit_studio.records import TuningRecord
from nnjit_studio.verdict.measure import Visits

OnProgress = Callable[[int, int], None]


class Records(Protocol):
    """The kernel database; every call may block, from any thread."""

    path: Path

    def measurements(self, after: int = 0) -> list[Measurement]:
        """Records as lines of a table, newest first, deleted ones too; those ``after`` an id."""

    def all_records(self, *, limit: int) -> list[TuningRecord]:
        """The newest records that are not deleted, without their modules."""

    def annotate(self, remarks: Mapping[int, tuple[str, str]]) -> None:
        """Set note and tags of records by their ids."""

    def delete(self, ids: Sequence[int]) -> None:
        """Put records aside."""

    def restore(self, ids: Sequence[int]) -> None:
        """Bring deleted records back."""

    def look_into(self, path: Path) -> list[Measurement]:
        """The records of a file, without importing them."""

    def import_from(self, path: Path, on_progress: OnProgress) -> int:
        """Add the records of a file, all or none; how many were new."""

    def export_to(self, path: Path, *, on_progress: OnProgress) -> int:
        """Write all records to a file; how many."""


@runtime_checkable
class PageView(Protocol):
    """An engine view that can be started and shut down."""

    page_lost: Any

    def start(self) -> None:
        """Load the page."""

    def shut_down(self) -> None:
        """End page and profile, in that order; may be called again."""


class PageVisits(Visits, Protocol):
    """Opens pages that nobody sees, for jobs that compare engines."""

    def shut_down(self) -> None:
        """Close what is open; may be called again."""
