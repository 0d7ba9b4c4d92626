"""The largest sizes that tables of rows allow, such as those of positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nnjit_studio.compiler.any_size.constants import Made, Prefix
from nnjit_studio.compiler.any_size.formulas.fit import Vector
from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.compiler.any_size.probe import Probe
from nnjit_studio.compiler.any_size.refusal import NO_ROWS, refused
from nnjit_studio.compiler.any_size.runs.trial import LARGEST_TABLE, Trial, looked_up_to
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.model.size import LARGEST, Size


def rows_of(builts: Sequence[BuiltModel], constants: Mapping[int, Made]) -> Iterator[Vector]:
    """How many rows of each table the imports have."""
    for i, made in constants.items():
        if isinstance(made, Prefix):
            row = made.base.nbytes // made.base.shape[made.axis]
            yield tuple(built.plan.buffers[i].nbytes // row for built in builts)


def ends_of(tables: Sequence[Sequence[tuple[int, ...]]]) -> Iterator[Vector]:
    """Where ranges end that places in tables are computed from, by import."""
    for ends in zip(*tables, strict=True):
        yield from (end for end in zip(*ends, strict=True) if len(set(end)) > 1)


def bounded(
    trial: Trial,
    found: Probe,
    example: Sizes,
    lengths: Sequence[Vector],
    atoms: Mapping[Vector, Size],
    counted: bool,
) -> Probe:
    """The dimensions that these lengths follow up to the largest sizes that run.

    Parameters
    ----------
    counted
        Whether what follows from a Range may be computed: tables of signals, and long ones, have
        to end by themselves then.

    Raises
    ------
    ModelError
        When a length has no formula, or several dimensions share the rows of a table.
    """
    for length in lengths:
        if length not in atoms:
            raise refused(NO_ROWS)
        names = [dim.name for dim in atoms[length].dims]
        for dim in found.dims:
            if dim.name in names and dim.high == LARGEST:
                n, most = example[dim.name], trial.largest(dim.name, example)
                long = dim.name in trial.signals or 2 * n > LARGEST_TABLE
                if counted and long and most == looked_up_to(n):
                    raise refused(f"a table would have to end at {dim.name}={most}")
                found = found.bounded(dim.name, most)
        ends = {dim.name: dim.high for dim in found.dims if dim.name in names}
        if len(ends) > 1 and not trial.runs({**example, **ends}):
            raise refused(f"{' and '.join(names)} share the rows of a table")
    return found
