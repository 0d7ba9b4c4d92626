"""The kernel database: every measured candidate, in one plain SQLite file."""

from nnjit_studio.database.database import KernelDatabase
from nnjit_studio.database.measurement import Measurement
from nnjit_studio.database.safety import journal_mode, sqlite_safety

__all__ = ["KernelDatabase", "Measurement", "journal_mode", "sqlite_safety"]
