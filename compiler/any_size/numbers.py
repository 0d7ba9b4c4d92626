"""The numeric check of an open plan: run in wasmtime, compared with native ONNX Runtime.

It happens before a bundle is written, at sizes that no formula was made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.inputs import Feeds, Sizes
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.records import TIERS, Kernel
from nnjit_studio.support.phases import OnPhase, quiet

TOLERANCE = 1e-3
"""Of an output's largest absolute value, for the largest difference of an element."""
HALF_TOLERANCE = 2e-2
"""The same where the bundle keeps weights as f16 and ONNX Runtime has f32."""
ROUNDED_TOLERANCE = 0.1
"""The same where the model rounds activations to 8 bits: sums in another order fall on other steps,
which moved MiniLM's by 0.03."""
FLIPPED = 0.01
"""The share of whole numbers that may differ: two equal scores may change places."""

_MOST_ROWS = 4096
_FALLS = 0.5
"""The share of places at which what falls along the rows is a score, and no number of a class."""
_LEAST_SCALE = 2.0**-12
"""Where an output is smaller than this everywhere, such as probabilities of nothing, two steps of a
float at 1 are still within the tolerance: a sigmoid may be off by as much."""

Array = NDArray[Any]


def check_numbers(
    plan: OpenPlan,
    kernels: Sequence[Kernel],
    weights: Path,
    trial: Trial,
    at: Sequence[Sizes],
    half_weights: bool,
    on_phase: OnPhase = quiet,
    tiers: Sequence[str] = TIERS,
) -> float:
    """Compare the outputs at these sizes, in these tiers, with native ONNX Runtime.

    Parameters
    ----------
    at
        Sizes of the plan's dimensions; what the model fixes is added by the trial's arrays.

    Returns
    -------
    float
        The largest difference of an element, as a share of its output's largest absolute value.

    Raises
    ------
    ModelError
        When an output differs by more than :data:`TOLERANCE`, or a kernel traps.
    """
    limit, worst = HALF_TOLERANCE if half_weights else TOLERANCE, 0.0
    limit = ROUNDED_TOLERANCE if trial.rounds else limit
    runners = [OpenRunner(plan, kernels, weights, tier) for tier in tiers]
    for sizes in at:
        text = ", ".join(f"{d.name}={sizes[d.name]}" for d in plan.dims)
        on_phase(f"checking the numbers at {text}")
        for feeds, wanted in trial.cases(sizes):
            for runner in runners:
                off = _worst(runner, sizes, feeds, wanted, limit, text, trial.chooses)
                worst = max(worst, off)
    return worst


def _worst(
    runner: OpenRunner,
    sizes: Sizes,
    feeds: Feeds,
    wanted: Feeds,
    limit: float,
    text: str,
    chooses: bool,
) -> float:
    """The largest difference in one run, if it is no larger than the limit."""
    try:
        found = runner.run(sizes, feeds)
    except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
        raise refused(f"a kernel fails at {text} ({str(error).splitlines()[0]})") from error
    worst = 0.0
    for name, value in found.items():
        off = difference(value, wanted[name])
        if not off <= limit and chooses:
            off = off_by_rows(value, wanted[name], limit)
        if not off <= limit:
            raise refused(f"{name} differs from ONNX Runtime's by {off:.1g} at {text}")
        worst = max(worst, off)
    return worst


def difference(found: Array, wanted: Array) -> float:
    """The largest difference of floats, by the largest absolute value; infinite where only one
    is a number. Of whole numbers 0 or, where more than :data:`FLIPPED` differ, infinite."""
    if found.shape != wanted.shape:
        return float("inf")
    if wanted.size == 0:
        return 0.0
    if wanted.dtype.kind != "f":
        return 0.0 if np.mean(found != wanted) <= FLIPPED else float("inf")
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(finite, np.isfinite(a)):
        return float("inf")
    scale = float(np.max(np.abs(b), where=finite, initial=0.0))
    off = float(np.max(np.abs(a - b, where=finite, out=np.zeros_like(b)), initial=0.0))
    return off / max(scale, _LEAST_SCALE)


def off_by_rows(found: Array, wanted: Array, limit: float) -> float:
    """The same of rows in the order of a score, of which alike ones may change places.

    The score has to be alike at each place. Each row but :data:`FLIPPED` of them, as at the end of
    the order, has to be another one of the wanted rows.
    """
    if found.shape != wanted.shape or wanted.ndim < 2 or wanted.shape[-2] > _MOST_ROWS:
        return float("inf")
    if wanted.dtype.kind != "f" or not (np.isfinite(found).all() and np.isfinite(wanted).all()):
        return float("inf")
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    step = np.diff(b, axis=-2).reshape(-1, b.shape[-1])
    score = (step <= 0).all(axis=0) & (np.mean(step < 0, axis=0) > _FALLS)
    scale = max(float(np.abs(b).max()), _LEAST_SCALE)
    if not score.any() or np.abs(a - b)[..., score].max() > limit * np.abs(b[..., score]).max():
        return float("inf")
    worst, rows = 0.0, b.shape[-2:]
    for one, other in zip(a.reshape(-1, *rows), b.reshape(-1, *rows), strict=True):
        free, lost = np.ones(len(other), bool), 0
        for row in one:
            off = np.where(free, np.abs(other - row).max(axis=1), np.inf)
            at = int(off.argmin())
            if off[at] > limit * scale:
                lost += 1
            else:
                free[at], worst = False, max(worst, float(off[at]) / scale)
        if lost > FLIPPED * len(other):
            return float("inf")
    return worst
