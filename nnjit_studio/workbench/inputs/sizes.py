"""One model's inputs at several sizes of its open dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import Survey
from nnjit_studio.workbench.inputs.roles import BATCH, Axis, axes_of, constants_of
from nnjit_studio.workbench.inputs.values import Arrays, drawn, shape_of, sizes_of


@dataclass(frozen=True)
class Sized:
    """Inputs, and the sizes of all open dimensions that they have, by name."""

    sizes: Mapping[str, int]
    arrays: Arrays


def sized(
    survey: Survey, wanted: Mapping[str, Sequence[int]], given: Arrays | None = None
) -> tuple[Sized, ...]:
    """Inputs for each of the wanted sizes.

    Parameters
    ----------
    wanted
        Sizes by the name of a dimension; the empty name is the one open dimension that is no
        batch. Several dimensions change together: equally many sizes, or one for all.
    given
        Arrays whose elements and other sizes are used, repeated or cut; guesses without them.

    Raises
    ------
    UserError
        When a name is unknown, missing or given twice, a size is, or the numbers of sizes differ.
    """
    axes = {axis.name: axis for axis in axes_of(survey)}
    named: dict[str, Sequence[int]] = {}
    for name, sizes in wanted.items():
        full = name or only_dimension(survey)
        if full in named or full not in axes:
            what = "has its sizes twice" if full in named else "is no open dimension of the model"
            raise UserError(f"{full} {what}.", f"Its open dimensions are {_list(axes)}.")
        named[full] = sizes
    counts = {len(sizes) for sizes in named.values()} - {1}
    if len(counts) > 1:
        raise UserError(
            "The dimensions have different numbers of sizes.",
            "Give equally many for each, or one for all.",
        )
    first = {name: axis.first for name, axis in axes.items()}
    if given is not None:
        first |= sizes_of(given, survey)
    rows = [
        {n: sizes[i % len(sizes)] for n, sizes in named.items()}
        for i in range(max(counts, default=1))
    ]
    if again := next((row for i, row in enumerate(rows) if row in rows[:i]), None):
        size = ", ".join(f"{name} = {n}" for name, n in again.items())
        raise UserError(f"The size {size} stands there twice.", "Give each size once.")
    return tuple(_at(survey, {**first, **row}, given) for row in rows)


def _at(survey: Survey, sizes: Mapping[str, int], given: Arrays | None) -> Sized:
    constants = {c.name: c.first for c in constants_of(survey)}
    arrays = drawn(survey, dict(sizes), constants)
    for port in survey.inputs:
        if given is not None and port.name in given:
            held = given[port.name]
            arrays[port.name] = np.resize(held, shape_of(port, dict(sizes)))
    return Sized(sizes, arrays)


def only_dimension(survey: Survey) -> str:
    """The dimension that sizes without a name are of.

    Raises
    ------
    UserError
        When there is none, or several may be meant.
    """
    axes = {axis.name: axis for axis in axes_of(survey)}
    if not axes:
        raise UserError("The model leaves no size open.", "Profile it without --sizes.")
    free = [name for name, axis in axes.items() if axis.role != BATCH] or list(axes)
    if len(free) > 1:
        raise UserError(
            f"The model has several open dimensions: {_list(axes)}.",
            f"Say which: --sizes {free[-1]}=16,64.",
        )
    return free[0]


def _list(axes: Mapping[str, Axis]) -> str:
    return ", ".join(axes) or "none"
