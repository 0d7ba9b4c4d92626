"""The welcome page above the engine page, its sample and its look at the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QStackedLayout, QWidget

from nnjit_studio.ui.files import recent
from nnjit_studio.ui.window.welcome import Welcome

if TYPE_CHECKING:
    from nnjit_studio.ui.window.main_window import StudioWindow

EXAMINE = "examine"


class FirstRun(QObject):
    """Shows the welcome page until a job needs the engine's; looks at the machine on request."""

    def __init__(self, window: StudioWindow) -> None:
        super().__init__(window)
        self._window = window
        self._then: Callable[[], object] | None = None
        self._profiles = False
        self.page = Welcome(window.actions_by_id)
        self.page.wants_sample.connect(self.open_sample)
        self.page.wants_model.connect(window.open_model)
        self.central = QWidget()
        # Both stay visible to Qt: a hidden page counts as one in the background.
        self._stack = QStackedLayout(
            self.central, stackingMode=QStackedLayout.StackingMode.StackAll
        )
        self._stack.addWidget(window.engine_view)
        self._stack.addWidget(self.page)
        window.session.busy_changed.connect(self._busy_changed)
        window.session.done.connect(self._done)
        window.session.problem.connect(lambda problem: self._go_on(problem.job))
        self.show()

    def begin(self) -> None:
        """For a window without a model: look at the machine at once, without any browser."""
        self._window.session.examine(survey=False)
        self.page.sample_button.setFocus()

    def show(self) -> None:
        """Put the welcome page in front."""
        self.page.show_recent(recent.recent(self._window.settings))
        self._bring(self.page)

    def examine(self) -> None:
        """Look at everything, browsers and GPUs too."""
        self.show()
        self._window.session.examine(survey=True)

    def open_sample(self) -> bool:
        """Open the sample and profile it; while the machine is looked at, right after that."""
        if self.after(self.open_sample):
            return True
        self._profiles = self._window.session.open_sample()
        return self._profiles

    def after(self, then: Callable[[], object]) -> bool:
        """Whether the machine is being looked at; ``then`` is called at the end of it."""
        if self._window.session.busy != EXAMINE:
            return False
        self._then = then
        return True

    def _bring(self, widget: QWidget) -> None:
        self._stack.setCurrentWidget(widget)
        self.page.setVisible(widget is self.page)

    def _busy_changed(self, job: str) -> None:
        if job not in ("", EXAMINE):
            self._bring(self._window.engine_view)

    def _done(self, job: str, result: Any) -> None:
        if job == EXAMINE:
            self.page.show_checks(result)
        if job == "open" and self._profiles:
            # A newcomer does not know yet that F6 shows where the time goes.
            self._window.actions_by_id["profile"].trigger()
        self._go_on(job)

    def _go_on(self, job: str) -> None:
        if job == EXAMINE:
            then, self._then = self._then, None
            if then is not None:
                then()
        elif job == "open":
            self._profiles = False
            if self._window.session.state.model is None:
                self.show()  # it could not be opened: the way to another one stays in sight
