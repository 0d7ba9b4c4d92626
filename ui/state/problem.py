"""An error of a job, as the window shows it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from nnjit_studio.errors import BugError, NnjitError, UserError


@dataclass(frozen=True)
class JobProblem:
    """One sentence, the next step, and the details for a bug report."""

    job: str
    error: str
    hint: str = ""
    details: str = ""
    kind: str = "bug"

    @property
    def cause(self) -> NnjitError:
        """The error to raise where nobody sees the window."""
        made = UserError if self.kind == "user" else BugError
        return made(self.error, self.hint)

    def __str__(self) -> str:
        return f"{self.error} {self.hint}".strip()

    @classmethod
    def of(cls, job: str, error: BaseException) -> JobProblem:
        details = "".join(traceback.format_exception(error))
        if isinstance(error, NnjitError):
            return cls(job, error.error, error.hint, details, error.kind)
        text = str(error) or type(error).__name__
        return cls(
            job,
            f"Something unexpected went wrong: {text.splitlines()[0].rstrip('.')}.",
            "Copy the details into a bug report.",
            details,
        )
