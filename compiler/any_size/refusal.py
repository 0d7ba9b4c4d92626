"""The sentence of a model that cannot be compiled for any size."""

from __future__ import annotations

from nnjit_studio.errors import ModelError

DIFFERENT_STEPS = "its steps differ from size to size"


def refused(why: str) -> ModelError:
    return ModelError(
        f"The model cannot be compiled for any size: {why}.", "Fix its sizes with --dim."
    )
