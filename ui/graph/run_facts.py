"""Facts of the two runs that a graph shows, from the results of a session. Knows no Qt."""

from __future__ import annotations

from nnjit_studio.analysis.backends import BackendComparison
from nnjit_studio.analysis.diff import Diff
from nnjit_studio.analysis.profile import ModelProfile
from nnjit_studio.model import Graph
from nnjit_studio.ui.graph.facts import (
    Facts,
    Run,
    Values,
    errors_of,
    peaks_of,
    run_of_profile,
    runs_of_backends,
)
from nnjit_studio.ui.widgets import text

BEFORE = "Before tuning"


class RunFacts:
    """``shown`` are the facts of the run under Show, ``other`` those of the one under Compare."""

    def __init__(self) -> None:
        self.shown, self.other = Facts(), Facts()
        self.profile: ModelProfile | None = None
        self.errors: dict[str, float] = {}
        self._profiles = 0

    def take(self, result: object, graph: Graph) -> list[Run] | None:
        """The runs that a job's result brings; None where it says nothing of nodes."""
        if isinstance(result, ModelProfile):
            self.profile = result
            self._profiles += 1
            label = f"Profile {self._profiles}: {result.target}, {result.tier}, "
            return [run_of_profile(result, f"{label}{result.warm.median_ms:.2f} ms", graph)]
        if isinstance(result, Diff):
            self.errors.update(errors_of(result))
            return []
        return runs_of_backends(result) if isinstance(result, BackendComparison) else None

    def before(self, ms: Values) -> Run | None:
        """The first timed run since the model was opened or its tuning began."""
        return Run(BEFORE, ms, peaks_of(self.profile)) if ms else None

    def learn(
        self, ms: Values, nbytes: Values, shown: Run | None, compared: Run | None
    ) -> tuple[str, str]:
        """Take what is known now; returns the lines above the other and the shown graph.

        Parameters
        ----------
        ms
            Of the nodes in the last timed run.
        nbytes
            That each node reads and writes.
        shown, compared
            The runs that are chosen; None for the present run, and for no comparison.
        """
        now = Run("Now", ms, peaks_of(self.profile))
        run = shown or now
        errors = self.errors if run is now else {}
        self.shown = Facts(run.ms, run.peak, nbytes, dict(errors), compared)
        other = compared or Run("Choose a run under Compare", {})
        self.other = Facts(other.ms, other.peak, nbytes)
        return _caption(other, self.other), _caption(run, self.shown)


def _caption(run: Run, facts: Facts) -> str:
    return run.label + (f": {text.latency(facts.total_ms)} ms, all steps" if run.ms else "")
