"""A session's records when the disk is full: it waits for room instead of ending."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from nnjit_studio.database import KernelDatabase
from nnjit_studio.database.safety import DiskFullError
from nnjit_studio.model import Workload
from nnjit_studio.records import KernelKey, TuningRecord

AGAIN_S = 1.0
LOGGER = logging.getLogger(__name__)


class PatientRecords:
    """The database as the tuner sees it; a record waits until there is room for it.

    ``cancelled`` tells whether the user does not want to wait.
    """

    def __init__(self, database: KernelDatabase, cancelled: Callable[[], bool]) -> None:
        self._database, self._cancelled = database, cancelled
        self.records: Callable[[KernelKey], Sequence[TuningRecord]] = database.records
        self.history: Callable[[Sequence[Workload]], Sequence[TuningRecord]] = database.history

    def commit_record(self, record: TuningRecord) -> int:
        """Durable when it returns.

        Raises
        ------
        DatabaseError
            As of the database; that the disk is full only when the user cancels.
        """
        told = False
        while True:
            try:
                return self._database.commit_record(record)
            except DiskFullError as e:
                if self._cancelled():
                    raise
                if not told:
                    LOGGER.warning("%s The session waits until there is room.", e.error)
                told = True
            time.sleep(AGAIN_S)
