"""The sentence of a model that cannot be compiled for any size."""

from __future__ import annotations

from nnjit_studio.errors import ModelError, NnjitError

_HINT = "Fix its sizes with --dim."
DIFFERENT_STEPS = "its steps differ from size to size"
COMPUTED = "that was computed from the sizes"
NO_ROWS = "the length of a table has no formula"


def reason(error: NnjitError) -> str:
    """What stands in the way, without the beginning that all these sentences share."""
    return error.error.partition(": ")[2] or error.error


def refused(why: str) -> ModelError:
    return ModelError(f"The model cannot be compiled for any size: {why}.", _HINT)
