"""What travels between the machine that asks and the machines that work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERBS = ("tune", "compare")
"""What a fleet does with a model; each prints JSON lines, the summary last."""


@dataclass(frozen=True)
class Job:
    """One verb on one model."""

    number: int
    verb: str
    model: Path
    """On the machine that asks."""
    arguments: tuple[str, ...] = ()
    """Further words of the verb, such as ``--seconds 20``."""

    @property
    def name(self) -> str:
        return f"{self.verb}-{self.number}-{self.model.stem}"


@dataclass(frozen=True)
class Outcome:
    """What a job gave, or the sentence that it ended with."""

    summary: Mapping[str, Any]
    """The last JSON line of the verb."""
    records: bytes = b""
    """The kernel database of the job, an SQLite file; empty where the verb keeps none."""
    error: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Started:
    """A worker took a job; again, where the worker before it died."""

    job: Job
    worker: str
    attempt: int


@dataclass(frozen=True)
class Progressed:
    """A line of a job for a person who watches."""

    job: Job
    line: str


@dataclass(frozen=True)
class Ended:
    """A job is done, once; ``seconds`` are those of the attempt that ended it."""

    job: Job
    worker: str
    seconds: float
    outcome: Outcome


Event = Started | Progressed | Ended
