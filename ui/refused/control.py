"""What is done with a model that was read and could not be imported: ONNX Runtime Web runs it."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QObject, QTimer

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import Obstacle, Survey
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.opening import answers as kept
from nnjit_studio.ui.refused.dock import RefusedPanel
from nnjit_studio.ui.refused.feature import REFUSED
from nnjit_studio.ui.state.jobs import Job, JobProblem, reader
from nnjit_studio.ui.verdict.control import LONG, MOST_WEIGHTS, SETTLE_MS, SHORT, VerdictControl
from nnjit_studio.verdict import store
from nnjit_studio.verdict.measure import Effort
from nnjit_studio.workbench import Workbench, jobs
from nnjit_studio.workbench.jobs.refused import Refused, RefusedRun

RUN, FASTER = "refused", "turbo"
"""Names of jobs."""


class RefusedModels(QObject):
    """Shows a refusal in its dock, and has the file measured there whenever nothing else runs.

    Parameters
    ----------
    verdict
        Knows which ONNX Runtime Web there is, and installs one.
    """

    def __init__(self, host: Host, verdict: VerdictControl) -> None:
        super().__init__(host)
        self._host, self._verdict = host, verdict
        self._survey: Survey | None = None
        self._refused: Refused | None = None
        self._due: Effort | None = None
        self._running: Effort | None = None
        self._panel: RefusedPanel | None = None
        self._reader = reader(self, self._looked_up, self._not_looked_up)
        session = host.session
        session.surveyed.connect(self._take)
        session.done.connect(self._done)
        session.problem.connect(self._problem)
        session.busy_changed.connect(self._follow)
        session.refused_told.connect(self._show)
        session.yielded.connect(self._gave_way)
        verdict.peer_found.connect(lambda: self.measure())

    def tell(self, problem: JobProblem) -> bool:
        """Show a model that was not opened; False where nothing is known of it."""
        survey = self._survey
        if problem.job != "open" or survey is None or problem.cancelled:
            return False
        steps = [("What stands in the way", self._show_dock)]
        self._host.message.say(str(problem), "bad", problem.details, steps=steps)
        panel = self._show_dock()
        panel.show_refusal(str(problem))
        self._look_up()
        answers = kept.remembered(self._host.settings, survey) or kept.guessed(survey)
        try:
            self._refused = Refused(survey, answers.arrays(survey), problem.error)
        except UserError as error:
            panel.verdict.show_verdict(None, str(error))
            return True
        if survey.nbytes > MOST_WEIGHTS:
            panel.verdict.show_verdict(None, "A large model is measured when you ask for it.")
        else:
            self.measure()
        return True

    def measure(self, effort: Effort = SHORT) -> None:
        """Measure the refused model, as soon as nothing else runs."""
        there = self._refused is not None and self._host.visits is not None
        self._due = effort if there else None
        self._begin_soon()

    def make_faster(self) -> None:
        """Make ONNX Runtime Web's module faster, if that was not done before, then measure."""
        peer = self._verdict.peer()
        if peer is not None:
            self._host.session.run(
                Job(
                    FASTER,
                    "Making ONNX Runtime's module faster: a minute or two",
                    lambda bench, tell: bench.run(jobs.make_refused_faster, peer, tell),
                    needs_model=False,
                )
            )

    def _look_up(self) -> None:
        """Have the file's operators looked up, which needs the importer's rules."""
        survey, bench = self._survey, self._host.session.workbench
        if survey is not None:
            path = survey.path
            self._reader.start("obstacles", lambda _: (survey, bench.process.obstacles(path)))

    def _looked_up(self, found: tuple[Survey, tuple[Obstacle, ...]]) -> None:
        survey, obstacles = found
        if survey is not self._survey:
            self._look_up()
        elif self._panel is not None:
            self._panel.show_obstacles(obstacles)

    def _not_looked_up(self, problem: JobProblem) -> None:
        if self._panel is not None:
            self._panel.show_obstacles((), str(problem))

    def _show_dock(self) -> RefusedPanel:
        panel = REFUSED.show(self._host)
        if self._panel is None:
            self._panel = panel
            panel.wants_faster.connect(self.make_faster)
            bars = panel.verdict
            bars.wants_measuring.connect(lambda longer: self.measure(LONG if longer else SHORT))
            bars.wants_stop.connect(self._stop)
            bars.wants_install.connect(self._verdict.install)
            bars.wants_folder.connect(self._verdict.ask_folder)
        return panel

    # Following the session

    def _take(self, survey: Survey) -> None:
        self._survey, self._refused, self._due = survey, None, None

    def _done(self, job: str, _: object) -> None:
        if job == "open":
            self._survey = self._refused = self._due = None
            if self._panel is not None:
                self._panel.clear()
        elif job == RUN:
            self._running = None
        elif job == FASTER:
            self.measure()

    def _problem(self, problem: JobProblem) -> None:
        if problem.job == RUN and self._panel is not None:
            self._running = None
            said = "Stopped." if problem.cancelled else str(problem)
            self._panel.verdict.show_verdict(None, said)

    def _follow(self, busy: str) -> None:
        if busy == "open":
            self._survey = None  # what cannot be read is not the file that was read before
        if self._panel is not None:
            self._panel.faster.setEnabled(not busy and self._verdict.peer() is not None)
        self._begin_soon()

    def _show(self, run: RefusedRun) -> None:
        if self._panel is not None and self._refused is not None:
            self._panel.show_run(run)

    def _begin_soon(self) -> None:
        QTimer.singleShot(SETTLE_MS, self, self._begin)

    def _begin(self) -> None:
        effort, refused, visits = self._due, self._refused, self._host.visits
        session = self._host.session
        if effort is None or refused is None or visits is None or session.paused or session.busy:
            return
        peer, folder = self._verdict.peer(), session.workbench.database.path.parent

        def work(bench: Workbench) -> Iterator[RefusedRun]:
            before = store.last_verdicts(folder)
            module = bench.run(jobs.faster_module, peer) if peer else None
            how = visits, peer, effort, before, module
            yield from bench.run(jobs.run_refused, refused, *how)

        job = Job(RUN, "Running it in ONNX Runtime Web", lambda bench, _: work(bench), False)
        if session.run(job, unasked=True):
            self._due, self._running = None, effort

    def _gave_way(self) -> None:
        if self._running is not None:
            self._due, self._running = self._running, None
            if self._panel is not None:
                self._panel.verdict.show_verdict(None, "It goes on when nothing else runs.")

    def _stop(self) -> None:
        self._due = None
        self._host.session.cancel()
