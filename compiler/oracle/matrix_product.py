"""Batches of matrix products in float64, block by block, with the error bound of an f32 kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnjit_studio.compiler.ir.affine import LinearForm
from nnjit_studio.compiler.oracle import rounding
from nnjit_studio.compiler.oracle.rounding import Array, Value

Ranges = Mapping[str, tuple[int, int]]
"""Of variables: the first value and the one behind the last."""


@dataclass(frozen=True)
class Operand:
    """``batch`` x rows x columns; ``error`` is None where all values are exact."""

    value: Array
    error: Array | None


def blocks(
    left: Operand, right: Operand, factor: float | None, points: int
) -> Iterator[tuple[int, slice, Value]]:
    """Products of at most ``points`` results: number in the batch, rows, values and their errors.

    Parameters
    ----------
    factor
        Of the sum of the terms' sizes: the relative error of a product and of its sum
        (:func:`nnjit_studio.compiler.oracle.rounding.sum_factor`). None tracks no error.
    """
    batch, rows, depth = left.value.shape
    step = max(1, points // max(1, right.value.shape[2]))
    for at in range(batch):
        terms = right.value[at]
        sizes = np.abs(terms) if factor is not None else terms
        off = right.error[at] if right.error is not None else None
        most = sizes if off is None else sizes + off
        for begin in range(0, rows, step):
            part = slice(begin, min(begin + step, rows))
            value = left.value[at, part]
            error: Array | float = 0.0
            if factor is not None:
                size = np.abs(value) @ sizes
                error = factor * size + 2 * depth * rounding.TINY
                if off is not None:
                    error += np.abs(value) @ off
                if left.error is not None:
                    error += left.error[at, part] @ most
                # An overflow of any partial sum makes the result anything, and so does a term
                # without a bound: infinite, or no number where it is multiplied by 0.
                error = np.where(size + error < rounding.F32_OVERFLOW, error, np.inf)
            yield at, part, (value @ terms, error)


def cuts(group: Sequence[str], extents: Mapping[str, int], points: int, most: int) -> list[Ranges]:
    """Ranges of a group's first variable, each with about ``most`` of all points."""
    if points <= most:
        return [{}]
    extent = extents[group[0]]
    step = max(1, extent * most // points)
    return [{group[0]: (at, min(at + step, extent))} for at in range(0, extent, step)]


def strided(
    array: Array, form: LinearForm, groups: Sequence[Sequence[str]], ranges: Ranges
) -> Array:
    """The elements of an affine load, one dimension for each group of variables."""
    order = [v for group in groups for v in group]
    first = form[0] + sum(form[1].get(v, 0) * ranges[v][0] for v in order)
    view = np.lib.stride_tricks.as_strided(
        array[first:],
        tuple(ranges[v][1] - ranges[v][0] for v in order),
        tuple(form[1].get(v, 0) * array.itemsize for v in order),
    )
    return view.reshape([size_of(group, ranges) for group in groups])


def offsets(form: LinearForm, group: Sequence[str], ranges: Ranges) -> Array:
    """What the variables of a group add to an affine index, the last one fastest."""
    total = np.zeros(1, np.intp)
    for v in group:
        steps = np.arange(*ranges[v]) * form[1].get(v, 0)
        total = (total[:, None] + steps).reshape(-1)
    return total


def size_of(group: Sequence[str], ranges: Ranges) -> int:
    """Points of a group's variables."""
    size = 1
    for v in group:
        size *= ranges[v][1] - ranges[v][0]
    return size
