"""Errors of a form's outputs against float32, and what the guard says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.advice.records import BROKEN, KEPT, UNJUDGED, Guard, OutputError

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


def judge(outputs: Sequence[OutputError], wanted: int, threshold: float, where: str = "") -> Guard:
    """What the guard says of a form's outputs.

    Parameters
    ----------
    wanted
        How many outputs should have been compared.
    where
        What else is known of the worst one, in words.
    """
    if not outputs or len(outputs) < wanted:
        reason = "Its outputs have other sizes: compare what they mean on data of your own."
        return Guard(UNJUDGED, threshold, reason)
    worst = max(outputs, key=lambda o: o.max_rel)
    if worst.max_rel <= threshold:
        return Guard(KEPT, threshold)
    told = f", {where}" if where else ""
    reason = f"Output {worst.name!r} is off by {worst.max_rel:.2g} of its largest value{told}; "
    return Guard(BROKEN, threshold, f"{reason}{threshold:.2g} is accepted.")
