"""What can still be done with a model that was read and could not be imported."""

from __future__ import annotations

from PySide6.QtCore import QObject

from nnjit_studio.errors import UserError
from nnjit_studio.model.native_run import NativeRun
from nnjit_studio.model.survey import Survey
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.opening import answers as kept
from nnjit_studio.ui.opening.obstacles import ObstaclesDialog
from nnjit_studio.ui.state.jobs import Job, JobProblem
from nnjit_studio.workbench import jobs

JOB = "native"
CANCELLED = "was cancelled"


class RefusedModels(QObject):
    """Offers the list of obstacles, and a run in native ONNX Runtime."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._host = host
        self._survey: Survey | None = None
        self._refusal = ""
        self.dialog: ObstaclesDialog | None = None
        host.session.surveyed.connect(self._take)
        host.session.done.connect(self._done)

    def tell(self, problem: JobProblem) -> bool:
        """Say why a model was not opened and what is possible; False where nothing is."""
        survey = self._survey
        if problem.job != "open" or survey is None or CANCELLED in problem.error:
            return False
        self._refusal = str(problem)
        steps = [
            ("What stands in the way", lambda: self._show(None)),
            ("Run it in ONNX Runtime", lambda: self._run(survey)),
        ]
        self._host.message.say(str(problem), "bad", problem.details, steps=steps)
        return True

    def _take(self, survey: Survey) -> None:
        self._survey = survey

    def _run(self, survey: Survey) -> bool:
        answers = kept.remembered(self._host.settings, survey) or kept.guessed(survey)
        try:
            feeds = answers.arrays(survey)
        except UserError as error:
            self._host.message.say(str(error), "bad")
            return False
        return self._host.session.run(
            Job(
                JOB,
                f"Running {survey.path.name} in native ONNX Runtime",
                lambda bench, _: bench.run(jobs.run_natively, survey.path, feeds),
                needs_model=False,
            )
        )

    def _show(self, run: NativeRun | None) -> None:
        if self._survey is not None:
            self.dialog = ObstaclesDialog(self._survey, self._refusal, run, self._host.window)
            dialogs.show(self.dialog)

    def _done(self, job: str, result: object) -> None:
        if job == "open":
            self._survey = None
        elif job == JOB and isinstance(result, NativeRun):
            self._show(result)
