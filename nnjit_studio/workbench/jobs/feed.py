"""Other inputs for the open model, of the same shapes: nothing is imported again."""

from __future__ import annotations

from nnjit_studio.errors import UserError
from nnjit_studio.workbench.inputs.edited import Array, unfit
from nnjit_studio.workbench.model import ModelOnPage


def feed(model: ModelOnPage, arrays: dict[str, Array]) -> None:
    """Have every later run, comparison and list of advice take these inputs.

    Raises
    ------
    UserError
        When an input's array is missing, or has another shape or dtype.
    """
    if wrong := unfit(model.current.plan.input_specs, arrays):
        raise UserError(f"The input {wrong} has no array of its shape.", "Give it one.")
    model.feeds = dict(arrays)
