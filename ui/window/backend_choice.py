"""The backend, Wasm or WebGPU: chosen in the header, kept in the settings."""

from __future__ import annotations

from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import QWidget

from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.tuner.events import FellBack
from nnjit_studio.ui.state.jobs import Job, JobProblem
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.panel import chooser, vbox
from nnjit_studio.workbench.jobs import use_backend

SETTING = "backend"
JOB = "backend"
TIP = "What runs the kernels: Wasm or WebGPU"
CHOICES: tuple[tuple[str, Backend, str], ...] = (
    ("Wasm", WASM, "Kernels on the processor"),
    ("WebGPU", Backend("webgpu", "bridge"),
     "Kernels in WGSL on this machine's GPU, through the Studio: the embedded engine has none"),
    ("WebGPU, software", Backend("webgpu", "bridge", software=True),
     "The same on an adapter in software: slow, but it shows whether kernels are right"),
)  # fmt: skip


class BackendChoice(QWidget):
    """A chooser with the adapter in its tooltip; it follows the workbench when that falls back.

    A choice that fails leaves the backend as it was, and the message bar has the reason.
    """

    def __init__(self, session: StudioSession, settings: QSettings) -> None:
        super().__init__()
        self._session, self._settings = session, settings
        self.chooser = chooser("Backend", TIP)
        for text, _, tip in CHOICES:
            self.chooser.addItem(text)
            self.chooser.setItemData(self.chooser.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.chooser.activated.connect(self.choose)
        vbox(self.chooser, on=self)
        self._restore()
        self.follow()
        session.busy_changed.connect(lambda job: self.chooser.setEnabled(not job))
        session.done.connect(self._done)
        session.problem.connect(self._problem)

    def choose(self, index: int) -> bool:
        """Run on another backend; False when something else is running."""
        text, backend, _ = CHOICES[index]
        started = self._session.run(
            Job(
                JOB,
                f"Changing to {text}",
                lambda bench, tell: bench.run(use_backend, backend, tell),
                needs_model=False,
            )
        )
        if not started:
            self.follow()
        return started

    def follow(self) -> None:
        """Show what the workbench runs now."""
        now = self._session.workbench.page.backend
        # Another target's workbench may run WebGPU by other means; its name is the same.
        alike = [(b.name, b.software) for _, b, _ in CHOICES]
        self.chooser.setCurrentIndex(alike.index((now.name, now.software)))

    def _restore(self) -> None:
        """Choose the backend of last time; the page is not asked before a model is opened."""
        stored = str(self._settings.value(SETTING, ""))
        found = next((b for text, b, _ in CHOICES if text == stored), None)
        if found is not None and self._session.workbench.page.backend == WASM:
            self._session.workbench.page.prefer(found)

    def _done(self, job: str, result: object) -> None:
        if job == JOB and isinstance(result, DeviceProfile):
            self._settings.setValue(SETTING, CHOICES[self.chooser.currentIndex()][0])
            self._name(result.gpu.name if result.gpu else "")
        self.follow()

    def _problem(self, problem: JobProblem) -> None:
        self.follow()
        if problem.job in (JOB, FellBack.name):
            self._name("")

    def _name(self, adapter: str) -> None:
        """The adapter that runs, in the tooltip: the header has no room to spare."""
        self.chooser.setToolTip(f"Kernels run on {adapter}" if adapter else TIP)
