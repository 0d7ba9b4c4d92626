"""The two kinds of error: those a user can mend, and those that are our bugs."""

from __future__ import annotations

from typing import Any


class NnjitError(Exception):
    """Base of every error that the Studio raises on purpose.

    Parameters
    ----------
    error
        What failed, on which object: one sentence.
    hint
        What to do next: one sentence, may be empty.
    """

    kind = "bug"

    def __init__(self, error: str, hint: str = "") -> None:
        super().__init__(error if not hint else f"{error} {hint}")
        self.error = error
        self.hint = hint

    def to_json(self) -> dict[str, Any]:
        """The one JSON form of an error, the same for the command line and the page."""
        return {"ok": False, "kind": self.kind, "error": self.error, "hint": self.hint}


class UserError(NnjitError):
    """Something outside the program is wrong, and the user can mend it."""

    kind = "user"


class ModelError(UserError):
    """The model file cannot be read or is not valid."""


class UnsupportedOpError(ModelError):
    """An operator of the model has no kernel; the message names the node."""


class WasmError(UserError):
    """A Wasm file is malformed, beyond the limits, or uses what is not understood."""


class DatabaseError(UserError):
    """The kernel database cannot be opened or written."""


class BundleError(UserError):
    """A bundle cannot be written, or does not verify."""


class CommonsError(UserError):
    """A report for the commons, or a server's answer, is malformed, untimely or not genuine."""


class TargetError(UserError):
    """The page's target (embedded view, browser) is missing or did not start."""


class PageError(NnjitError):
    """The engine page answered with an error, crashed or went silent."""


class BugError(NnjitError):
    """A broken promise between our own rooms."""


class CompileError(NnjitError):
    """A kernel could not be compiled: an ordinary outcome for one candidate."""
