"""What happened in the latest tuning session. Knows no Qt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnjit_studio.tuner import events as ev

PASSING = (ev.Trying, ev.Paused, ev.Resumed)
"""Events that are no part of a session's results."""


class LatestEvents(list[ev.Event]):
    """The events of the latest tuning session and of what went on since.

    Those of all sessions would not end: a window that tuned MiniLM grew by 25 MiB an hour.
    """

    def __init__(self) -> None:
        super().__init__()
        self._dropped = 0

    @property
    def count_all(self) -> int:
        """How many were ever kept."""
        return self._dropped + len(self)

    def keep(self, events: Iterable[ev.Event]) -> None:
        for event in events:
            if isinstance(event, ev.SessionStarted):
                self._dropped += len(self)
                self.clear()
            if not isinstance(event, PASSING):
                self.append(event)

    def since(self, count: int) -> Sequence[ev.Event]:
        """Those kept after ``count`` had been, unless a session that followed dropped them."""
        return self[max(0, count - self._dropped) :]
