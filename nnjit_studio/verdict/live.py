"""A verdict while its model is tuned: what pairs of the running model say, chained to it."""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.result import Verdict

UNTUNED, TUNED = "untuned", "tuned"


def times(a: Interval, b: Interval) -> Interval:
    """The product of two positive figures; its interval holds all products of theirs."""
    return Interval(a.median * b.median, a.low * b.low, a.high * b.high)


def over(a: Interval, b: Interval) -> Interval:
    """The quotient of two positive figures; its interval holds all quotients of theirs."""
    return Interval(a.median / b.median, a.low / b.high, a.high / b.low)


def may_follow(verdict: Verdict) -> bool:
    """Whether a verdict has what is needed to go on from it."""
    first = verdict.row(UNTUNED)
    return first is not None and first.ms is not None


def stands(known: Verdict | None, later: Verdict) -> bool:
    """Whether an answer still says more than what was measured later, in too short a time or on
    too busy a machine for a ratio."""
    return known is not None and later.state in ("busy", "few pairs")


def so_far(measured: Verdict, gain: Interval, machine: float | None = None) -> Verdict:
    """The measured answer, beside ours as tuned as the running model is now.

    Its ratio is replaced by that of :func:`with_gain` only where pairs prove that the running
    model is another one than that was measured, and the machine allows a ratio: chained
    intervals are so wide that an answer would be lost to a gain of nothing.
    """
    told = with_gain(measured, gain, machine)
    if measured.ratio is None or (told.ratio is not None and not _more(measured, gain).holds_1):
        return told
    return replace(measured) if told.ratio is None else replace(told, ratios=measured.ratios)


def _more(measured: Verdict, gain: Interval) -> Interval:
    """The gain since a verdict was measured, whose kernels may have been tuned then."""
    tuned = measured.row(TUNED)
    return over(gain, measured.gain) if tuned and tuned.ms and measured.gain else gain


def with_gain(measured: Verdict, gain: Interval, machine: float | None = None) -> Verdict:
    """A measured verdict with ours as tuned as the running model is now.

    No figure of a run is carried from one page to another: the tuned bar is the untuned one,
    divided by the gain of pairs in the running model, and the ratio over the peer is the measured
    one times that gain. The intervals grow as both do.

    Parameters
    ----------
    measured
        A verdict that :func:`may_follow`.
    gain
        How many times as fast the running model is as the untuned one.
    machine
        The share of its usual rate that the machine gave meanwhile; None where nobody looked.
    """
    first = measured.row(UNTUNED)
    assert first is not None and first.ms is not None
    old, more = measured.row(TUNED), _more(measured, gain)
    tuned = replace(old or first, who=TUNED, ms=over(first.ms, gain))
    if old is None:  # of kernels that nobody has shipped yet
        tuned = replace(tuned, cold_ms=None, shipped_bytes=None, max_rel_err=first.max_rel_err)
    rest = tuple(row for row in measured.rows if row.who != TUNED)
    return replace(
        measured,
        rows=(*rest, tuned),
        ratios={who: times(ratio, more) for who, ratio in measured.ratios.items()},
        gain=gain,
        rate=min(measured.rate, 1.0 if machine is None else machine),
        phase="",
    )
