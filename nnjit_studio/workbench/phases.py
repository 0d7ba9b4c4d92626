"""Phases of a job: told as they begin, and timed."""

from __future__ import annotations

import time

from nnjit_studio.support.phases import OnPhase, quiet

DONE = "done"
"""Said in place of a phase where the last one ended."""


class Phases:
    """Milliseconds of phases: each ends where the next one begins.

    ``on_phase`` hears of each; who goes on with the ledger of another may put its own there.
    """

    def __init__(self, on_phase: OnPhase = quiet) -> None:
        self.ms: dict[str, float] = {}
        self.on_phase = on_phase
        self._phase = ""
        self._since = 0.0

    def __call__(self, phase: str) -> None:
        now = time.perf_counter()
        if self._phase:
            self.ms[self._phase] = self.ms.get(self._phase, 0.0) + (now - self._since) * 1e3
        self._phase, self._since = ("" if phase == DONE else phase), now
        if self._phase:
            self.on_phase(phase)
