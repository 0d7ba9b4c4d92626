"""What earlier sessions have settled, and what deserves another look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nnjit_studio.records import TuningRecord

FAILURES = 2
"""A candidate that failed so often in the same engine is not tried again."""


def settled(past: Sequence[TuningRecord], user_agent: str) -> list[TuningRecord]:
    """Records of one key that need no repetition, in their order.

    ``wrong`` stays wrong: equal bytes compute equal results. ``failed`` may have been
    the machine: it counts after :data:`FAILURES` in this very engine. ``impossible``
    was a clock or a probe that erred: it is measured again.
    """
    failures = Counter(r.settings for r in past if r.state == "failed" and r.browser == user_agent)

    def stays(record: TuningRecord) -> bool:
        if record.state == "failed":
            return failures[record.settings] >= FAILURES and record.browser == user_agent
        return record.state != "impossible"

    return [r for r in past if stays(r)]
