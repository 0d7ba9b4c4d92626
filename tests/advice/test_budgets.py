"""Budgets: what is broken fails, what cannot be told fails with another sentence."""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.advice.budgets import BROKEN, KEPT, UNKNOWN, Budgets, check
from nnjit_studio.advice.records import Measurement, OutputError
from nnjit_studio.verdict.figures import Interval

FOUND = Measurement(
    Interval(10.0, 9.0, 12.0), Interval(10.0, 9.0, 12.0), download_bytes=3_000_000,
    outputs=(OutputError("y", 1e-3, 0.99),),
)  # fmt: skip


def states(found: Measurement, **limits: float) -> list[str]:
    return [each.state for each in check(found, Budgets(**limits))]


def test_no_budget_is_nothing_to_keep() -> None:
    assert check(FOUND, Budgets()) == ()


def test_every_budget_is_checked() -> None:
    assert states(FOUND, max_ms=13, max_mb=3.1, max_error=1e-2) == [KEPT] * 3
    assert states(FOUND, max_ms=8, max_mb=2.9, max_error=1e-4) == [BROKEN] * 3
    (time, *_) = check(FOUND, Budgets(max_ms=8))
    assert "8 ms" in time.why and time.value == 10


def test_what_nobody_can_tell_is_not_called_slow() -> None:
    assert states(FOUND, max_ms=9.5) == [UNKNOWN], "the interval holds the budget"
    busy = replace(FOUND, rate=0.4)
    assert states(busy, max_ms=8) == [UNKNOWN]
    assert states(busy, max_ms=13) == [KEPT], "even so it is fast enough"
    assert states(replace(FOUND, outputs=()), max_error=1) == [UNKNOWN]
