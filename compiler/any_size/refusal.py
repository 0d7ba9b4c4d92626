"""The sentence of a model that cannot be compiled for any size."""

from __future__ import annotations

from nnjit_studio.compiler.importer.onnx.walk import Counted, refuse
from nnjit_studio.errors import ModelError, NnjitError

_HINT = "Fix its sizes with --dim."
DIFFERENT_STEPS = "its steps differ from size to size"


def reason(error: NnjitError) -> str:
    """What stands in the way, without the beginning that all these sentences share."""
    return error.error.partition(": ")[2] or error.error


def refused(why: str) -> ModelError:
    return ModelError(f"The model cannot be compiled for any size: {why}.", _HINT)


def one_size_alone(counted: Counted) -> None:
    """Refuse a node that stays and gives as many results as its data says.

    Raises
    ------
    UnsupportedOpError
        With its name.
    """
    for node in counted.searches:
        raise refuse(node, "fixed sizes of all inputs, as it gives what its data says", _HINT)
