"""When a verdict is measured, with what, and what the window does with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QFileDialog

from nnjit_studio.errors import UserError
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import Job, JobProblem
from nnjit_studio.ui.verdict.live import LiveVerdict, again
from nnjit_studio.ui.verdict.panel import VerdictPanel
from nnjit_studio.verdict import peers, store
from nnjit_studio.verdict.live import stands
from nnjit_studio.verdict.measure import POLICY, Effort, Visits
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.verdict.text import explanation
from nnjit_studio.workbench import Workbench, jobs

VERDICT, INSTALL = "compare", "install_peer"
"""Names of jobs, and of the actions that ask for them."""
SHORT, LONG = Effort(), Effort(40.0, policy=replace(POLICY, rounds=200))
FOLDER_KEY = "peer_folder"
SETTLE_MS = 50
MOST_WEIGHTS = 600 * 2**20
"""Of a model that is compared unasked: its page holds it up to three times."""


class VerdictControl(QObject):
    """Measures the open model when it has been opened or tuned, whenever nothing else runs.

    Parameters
    ----------
    visits
        Opens the pages; None where nothing is measured.
    """

    rested = Signal()
    """Nothing is to be measured any more."""
    peer_found = Signal()
    """Another ONNX Runtime Web is there now."""

    def __init__(self, host: Host, panel: VerdictPanel, visits: Visits | None) -> None:
        super().__init__(host)
        self._host, self.panel, self._visits = host, panel, visits
        self._due: Effort | None = None
        self._running: Effort | None = None
        session = host.session
        session.done.connect(self._done)
        session.problem.connect(self._problem)
        session.busy_changed.connect(lambda _: self._begin_soon())
        self.live = LiveVerdict(session, panel)
        session.verdict_told.connect(self._take)
        session.yielded.connect(self._gave_way)
        panel.wants_measuring.connect(lambda longer: self.measure(LONG if longer else SHORT))
        panel.wants_stop.connect(self._stop)
        panel.wants_install.connect(self.install)
        panel.wants_folder.connect(self.ask_folder)
        host.themes.changed.connect(panel.set_theme)

    @property
    def resting(self) -> bool:
        """Whether nothing is measured and nothing waits to be."""
        return self._due is None and self._running is None

    def measure(self, effort: Effort = SHORT) -> None:
        """Measure the open model, as soon as nothing else runs."""
        self._due = effort if self._visits is not None else None
        self._begin_soon()

    def install(self) -> None:
        """Have npm fetch the pinned ONNX Runtime Web, then measure."""
        self._host.session.run(
            Job(
                INSTALL,
                f"Fetching ONNX Runtime Web {peers.VERSION} through npm",
                lambda bench, tell: peers.install(),
                needs_model=False,
            )
        )

    def ask_folder(self) -> None:
        """Have the user name a folder that has the package."""
        dialog = QFileDialog(self._host.window, "A folder that has onnxruntime-web")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.fileSelected.connect(lambda text: self.use_folder(Path(text)))
        dialog.open()

    def use_folder(self, folder: Path) -> None:
        """Take ONNX Runtime Web from there, if it is there."""
        if peers.find_peer(folder) is None:
            self._host.message.say(
                f"{folder} has no onnxruntime-web: choose the folder that has node_modules.", "bad"
            )
            return
        self._host.settings.setValue(FOLDER_KEY, str(folder))
        self.measure()
        self.peer_found.emit()

    def last(self) -> list[Verdict]:
        """What was measured before, the newest first."""
        return store.last_verdicts(self._folder)

    @property
    def _folder(self) -> Path:
        return self._host.session.workbench.database.path.parent

    def peer(self) -> peers.Peer | None:
        """The ONNX Runtime Web that models are compared with: the user's choice first."""
        chosen = self._host.settings.value(FOLDER_KEY)
        mine = peers.find_peer(Path(chosen)) if isinstance(chosen, str) else None
        return mine or peers.find_peer()

    # Following the session

    def _done(self, job: str, _: object) -> None:
        if job == INSTALL:
            self.peer_found.emit()
        model = self._host.session.state.model
        if model is None or self._visits is None:
            return
        if job == "open":
            self.panel.show_verdict(None, "ONNX Runtime Web is measured next.")
            if model.generation is not None:
                self.panel.show_verdict(None, "A model that makes text is not compared yet.")
            elif model.plan.weights_bytes > MOST_WEIGHTS:
                self.panel.show_verdict(None, "A large model is compared when you ask for it.")
            else:
                self.measure()
        elif job == VERDICT:
            self._end()
        elif job == "feed":
            self.panel.show_verdict(None, "It is measured again with the new inputs.")
            self.measure()
        elif job in ("tune", INSTALL):
            self.measure()

    def _problem(self, problem: JobProblem) -> None:
        if problem.job == VERDICT:
            cancelled = problem.kind == UserError.kind
            self._end("Stopped." if cancelled else str(problem))
        elif problem.job == "open" and self._host.session.state.model is None:
            self.panel.hide()

    def _begin_soon(self) -> None:
        # Other jobs that nobody asked for come first: they follow one another at once.
        QTimer.singleShot(SETTLE_MS, self, self._begin)

    def _begin(self) -> None:
        effort, visits = self._due, self._visits
        if effort is None or visits is None or self._host.session.paused or self._host.session.busy:
            return
        peer, folder, known = self.peer(), self._folder, self.live.answer

        def work(bench: Workbench) -> Iterator[Verdict]:
            before = store.last_verdicts(folder)
            told = None
            for told in bench.run(jobs.verdict, visits, peer, effort, before):
                yield told
            if told is not None and not stands(known, told):
                store.remember(folder, told)

        job = Job(VERDICT, "Comparing with ONNX Runtime Web", lambda bench, _: work(bench))
        if self._host.session.run(job, unasked=True):
            self._due, self._running = None, effort

    def _take(self, verdict: Verdict) -> None:
        """Show what is measured; an answer is not lost to what turns out to be none."""
        known = self.live.answer
        if known is not None and stands(known, verdict):
            self.panel.show_verdict(known, again(known, verdict))
        else:
            self.panel.show_verdict(verdict)

    def _gave_way(self) -> None:
        if self._running is not None:
            self._due, self._running = self._running, None
            known = self.live.measured
            said = f"{explanation(known)} " if known else ""
            self.panel.show_verdict(known, f"{said}It goes on when nothing else runs.")

    def _stop(self) -> None:
        self._due = None
        self._host.session.cancel()

    def _end(self, problem: str = "") -> None:
        self._running = None
        if problem:
            known = self.live.answer
            said = f"{explanation(known)} {problem}" if known else problem
            self.panel.show_verdict(known, said)
        if self.resting:
            self.rested.emit()
