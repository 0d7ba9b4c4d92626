"""Records of earlier sessions: their winners, what they have settled, what is measured again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from nnjit_studio.records import TuningRecord
from nnjit_studio.records.outcomes import WON, is_undecided, shown_outcome
from nnjit_studio.tuner.events import KnownCandidate

Speedup = tuple[float, float, float]
"""Of a kernel over another, and the ends of its interval."""
FAILURES = 2
"""A candidate that failed so often in the same engine is not tried again."""


def settled(records: Sequence[TuningRecord], user_agent: str) -> list[TuningRecord]:
    """Records of one key that need no repetition, in their order.

    ``wrong`` stays wrong: equal bytes compute equal results. ``failed`` may have been
    the machine: it counts after :data:`FAILURES` in this very engine. ``impossible``
    was a clock or a probe that erred: it is measured again. So is what seems faster, but
    not beyond the noise.
    """
    here = (r for r in records if r.state == "failed" and r.browser == user_agent)
    failures = Counter(r.settings for r in here)

    def stays(record: TuningRecord) -> bool:
        if record.state == "failed":
            return failures[record.settings] >= FAILURES and record.browser == user_agent
        undecided = is_undecided(record.state, record.speedup, record.speedup_high)
        return record.state != "impossible" and not undecided

    return [r for r in records if stays(r)]


def stored_winner(records: Sequence[TuningRecord]) -> TuningRecord | None:
    """The last record that won, or None.

    The last one, not the fastest: each winner beat the one before it in a
    direct comparison, while rates of different days do not compare.
    """
    return next((r for r in reversed(records) if r.state == "won"), None)


def chained(first: Speedup, then: Speedup) -> Speedup:
    """Of a kernel that beat one that beat another, over that one."""
    return (first[0] * then[0], first[1] * then[1], first[2] * then[2])


def stored_speedup(records: Sequence[TuningRecord]) -> Speedup | None:
    """Of the stored winner over the default kernel: each winner beat the one before it.

    None where a record is older than the speed-ups, or lacks its interval.
    """
    chain: Speedup = (1.0, 1.0, 1.0)
    for record in records:
        if record.state == WON:
            chain = chained(chain, (record.speedup, record.speedup_low, record.speedup_high))
    return chain if all(chain) else None


def known_results(
    records: Sequence[TuningRecord], known: Collection[str]
) -> tuple[KnownCandidate, ...]:
    """The last measurement of each known candidate; a former winner was faster than another."""
    last = {r.settings: r for r in records if r.settings in known}
    winner = stored_winner(records)
    return tuple(
        KnownCandidate(
            r.settings,
            r.state if r is winner else shown_outcome(r.state),
            r.gflops,
            r.median_ms,
            r.speedup,
            r.speedup_low,
            r.speedup_high,
        )
        for r in last.values()
    )
