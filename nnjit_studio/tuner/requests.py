"""Requests to a running session: to pause, and to measure a candidate next."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator

from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.tuner.events import Event, Paused, Resumed
from nnjit_studio.tuner.session_clock import SessionClock


class Requests:
    """Takes requests from any thread; the session's own asks for them between its rounds."""

    def __init__(self, clock: SessionClock) -> None:
        self._clock = clock
        self._pausing = False
        self._candidates: deque[tuple[str, AnyCandidate, float | None]] = deque()

    def pause(self, pausing: bool = True) -> None:
        """Have the session rest after its round, or no more. Thread-safe."""
        self._pausing = pausing

    def add(self, workload: str, candidate: AnyCandidate, enough: float | None = None) -> None:
        """Have a candidate measured next. Thread-safe.

        Parameters
        ----------
        workload
            Its key.
        enough
            Speed-up over the default that ends the search of this workload; None ends nothing.
        """
        self._candidates.append((workload, candidate, enough))

    def candidates(self) -> Iterator[tuple[str, AnyCandidate, float | None]]:
        """Workload, candidate and what is enough of each request, until none is left."""
        while self._candidates:
            yield self._candidates.popleft()

    def rest(self) -> Generator[Event, None, bool]:
        """Pause if that was asked for; whether it was.

        The page may have been used for anything meanwhile.
        """
        if not self._pausing:
            return False
        self._pausing = False
        yield Paused(self._clock.pause())
        rested_s = self._clock.resume()
        yield Resumed(self._clock.t_s(), rested_s)
        return True
