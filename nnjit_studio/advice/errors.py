"""Errors of a form's outputs against float32, and what the guard says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.advice.records import BROKEN, KEPT, UNJUDGED, Guard, Measurement, OutputError

Arrays = Mapping[str, NDArray[Any]]


def output_errors(got: Arrays, reference: Arrays) -> tuple[OutputError, ...]:
    """Of every output that both have with the same number of elements.

    What is NaN or infinite in both alike is no error; in one alone it is an infinite one.
    """
    both = [name for name in got if name in reference and got[name].size == reference[name].size]
    return tuple(_error(name, got[name], reference[name]) for name in both)


def _error(name: str, got: NDArray[Any], reference: NDArray[Any]) -> OutputError:
    a, b = (x.astype(np.float64).reshape(-1) for x in (got, reference))
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return OutputError(name, float("inf"), 0.0)
    a, b = a[finite], b[finite]
    scale = float(np.max(np.abs(b), initial=0.0)) or 1.0
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    cosine = float(a @ b) / lengths if lengths else float(np.array_equal(a, b))
    return OutputError(name, float(np.max(np.abs(a - b), initial=0.0)) / scale, min(cosine, 1.0))


def judge(found: Measurement, wanted: int, threshold: float) -> Guard:
    """What the guard says of a measurement.

    Parameters
    ----------
    wanted
        How many outputs should have been compared.
    """
    if not found.outputs or len(found.outputs) < wanted:
        reason = "Its outputs have other sizes: compare what they mean on data of your own."
        return Guard(UNJUDGED, threshold, reason)
    worst = max(found.outputs, key=lambda o: o.max_rel)
    if worst.max_rel <= threshold:
        return Guard(KEPT, threshold)
    layer = f", worst in {found.worst_layer}" if found.worst_layer else ""
    reason = f"Output {worst.name!r} is off by {worst.max_rel:.2g} of its largest value{layer}; "
    return Guard(BROKEN, threshold, f"{reason}{threshold:.2g} is accepted.")
