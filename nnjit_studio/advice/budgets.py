"""Budgets of a page in continuous integration: time, download, error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nnjit_studio.advice.records import Measurement
from nnjit_studio.verdict.result import LEAST_RATE
from nnjit_studio.verdict.text import timing

KEPT, BROKEN, UNKNOWN = "kept", "broken", "cannot be told"


@dataclass(frozen=True)
class Budgets:
    """Limits; None is none."""

    max_ms: float | None = None
    """Of one inference."""
    max_mb: float | None = None
    """10^6 bytes of download."""
    max_error: float | None = None
    """Largest error of an output over its largest value."""


@dataclass(frozen=True)
class Kept:
    """What became of one budget."""

    name: str
    """As the option is called, such as ``max-ms``."""
    limit: float
    value: float
    state: str
    """``kept``, ``broken`` or ``cannot be told``; the last two fail."""
    why: str = ""
    """One sentence, empty where it is kept."""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def check(found: Measurement, budgets: Budgets) -> tuple[Kept, ...]:
    """What became of each budget that is set.

    A time breaks its budget when its whole interval is above it, and keeps it when its median is
    not. In between nobody can tell, nor on a machine that is too busy.
    """
    checked = []
    if budgets.max_ms is not None:
        checked.append(_time(found, budgets.max_ms))
    if budgets.max_mb is not None:
        mb = found.download_bytes / 1e6
        checked.append(_plain("max-mb", budgets.max_mb, mb, f"The download is {mb:.3g} MB"))
    if budgets.max_error is not None:
        error = found.max_error
        if error is None:
            why = "No output could be compared with float32."
            checked.append(Kept("max-error", budgets.max_error, 0.0, UNKNOWN, why))
        else:
            text = f"The largest error of an output is {error:.2g}"
            checked.append(_plain("max-error", budgets.max_error, error, text))
    return tuple(checked)


def _plain(name: str, limit: float, value: float, text: str) -> Kept:
    if value <= limit:
        return Kept(name, limit, value, KEPT)
    return Kept(name, limit, value, BROKEN, f"{text}, above the budget of {limit:g}.")


def _time(found: Measurement, limit: float) -> Kept:
    name, ms = "max-ms", found.ms
    if ms.high <= limit:
        return Kept(name, limit, ms.median, KEPT)
    if found.rate < LEAST_RATE:
        why = f"The machine is too busy to tell whether {timing(ms)} is within {limit:g} ms."
        return Kept(name, limit, ms.median, UNKNOWN, why)
    if ms.low > limit:
        why = f"An inference takes {timing(ms)}, above the budget of {limit:g} ms."
        return Kept(name, limit, ms.median, BROKEN, why)
    if ms.median <= limit:
        return Kept(name, limit, ms.median, KEPT)
    why = f"The interval of {timing(ms)} holds the budget of {limit:g} ms: leave more room."
    return Kept(name, limit, ms.median, UNKNOWN, why)
