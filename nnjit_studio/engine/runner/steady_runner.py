"""The page with a memory of what was sent to it: what a crash took away is sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.connection import PageLost
from nnjit_studio.engine.runner.page_runner import NO_PLANS, PageRunner
from nnjit_studio.errors import PageError
from nnjit_studio.model import Plan
from nnjit_studio.records import (
    Fixture,
    Inference,
    Kernel,
    MeasurePolicy,
    Pulse,
    RunResult,
    Tap,
)
from nnjit_studio.records.serving import ServeOptions

PAGE_BACK_S = 60.0
"""How long a browser that crashed may take until its page is back."""
MOST_LOSSES = 3
"""One after another without a success: then it is given up."""

T = TypeVar("T")


class SteadyRunner(PageRunner):
    """A :class:`PageRunner` that survives its page, where someone opens the page again.

    When the page is lost, its model, kernels and fixture are sent to the next one
    and the call is repeated. A kernel that is measured when the page is lost twice
    gets a result with an error.

    Attributes
    ----------
    losses
        How often something was lost and made good.
    """

    def __init__(
        self,
        hub: Hub,
        target: str,
        flags: str = "",
        timeout_s: float = 120.0,
        threads: int = 1,
    ) -> None:
        super().__init__(hub, target, flags, timeout_s, threads)
        self.losses = 0
        self._in_a_row = 0
        self._mended = 0
        self._page = 0  # which of the hub's pages has what is remembered here
        self._mending = threading.RLock()
        self._model: tuple[Plan, Path, Mapping[str, Plan]] | None = None
        self._kernels: dict[str, Kernel] = {}
        self._fixture: tuple[Fixture, int | None] | None = None

    def pulse(self, tier: str) -> Pulse:
        base = super().pulse
        return self._steady(lambda: base(tier))

    def load(self, plan: Plan, weights: Path, others: Mapping[str, Plan] = NO_PLANS) -> None:
        base = super().load
        self._model = None
        self._kernels = {}
        self._steady(lambda: base(plan, weights, others))
        self._model = plan, weights, others

    def register(self, kernels: Sequence[Kernel], only: bool = False) -> None:
        base = super().register
        self._steady(lambda: base(kernels, only))
        with self._mending:
            kept = {} if only else self._kernels
            self._kernels = {**kept, **{kernel.workload: kernel for kernel in kernels}}

    def infer(
        self,
        feeds: Mapping[str, NDArray[Any]],
        runs: int = 1,
        profile: bool = False,
        least_step_ms: float = 0.0,
    ) -> Inference:
        base = super().infer
        return self._steady(lambda: base(feeds, runs, profile, least_step_ms))

    def tap(self, feeds: Mapping[str, NDArray[Any]], taps: Sequence[Tap]) -> list[bytes]:
        base = super().tap
        return self._steady(lambda: base(feeds, taps))

    def set_fixture(self, fixture: Fixture, threads: int | None = None) -> None:
        base = super().set_fixture
        self._fixture = None
        self._steady(lambda: base(fixture, threads))
        self._fixture = fixture, threads

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        base = super().measure
        pages_lost = 0

        def attempt() -> RunResult:
            nonlocal pages_lost
            try:
                return base(challenger, incumbent, policy)
            except PageLost as lost:
                pages_lost += 1
                if pages_lost < 2:
                    raise
                self._make_good(lost)
                same = (challenger.workload, challenger.settings, challenger.tier)
                return RunResult(*same, error=f"The page was lost with it twice: {lost.error}")

        return self._steady(attempt)

    def serve(self, feeds: Mapping[str, NDArray[Any]], options: ServeOptions) -> None:
        base = super().serve
        self._steady(lambda: base(feeds, options))

    def _steady(self, call: Callable[[], T]) -> T:
        """A call that is repeated when what it works on was lost under it.

        One loss may meet calls of several threads, those too that begin while it is made
        good: the first of them does that.
        """
        while True:
            mended = self._mended
            try:
                page = self._meet()
                result = call()
            except PageError as error:
                with self._mending:
                    if mended == self._mended:
                        self._make_good(error)
                    else:
                        self._check_loss(error)
            else:
                self._in_a_row, self._page = 0, page
                return result

    def _meet(self) -> int:
        """The number of the page that is there; raises when it came while nothing was asked."""
        page = self._hub.pages
        if page != self._page and (self._model or self._fixture):
            raise PageLost("The page was lost while it was idle.")
        return page

    def _make_good(self, error: PageError) -> None:
        """Send again what was lost; an error that is no loss is raised."""
        while True:
            self._check_loss(error)
            self.losses += 1
            self._in_a_row += 1
            if isinstance(error, PageLost):
                self._hub.wait_for_return(PAGE_BACK_S)
            try:
                self._send_again()
            except PageError as another:
                error = another
            else:
                self._mended += 1
                return

    def _check_loss(self, error: PageError) -> None:
        """Raise what is no loss, or one too many in a row."""
        if not isinstance(error, PageLost) or self._in_a_row >= MOST_LOSSES:
            raise error

    def _send_again(self) -> None:
        self._page = self._hub.pages
        if self._model is not None:
            plan = self._plan  # a further one, in a runner for that (`for_plan`)
            try:
                super().load(*self._model)
            finally:
                self._plan = plan
            if self._kernels:
                super().register(list(self._kernels.values()))
        if self._fixture is not None:
            super().set_fixture(*self._fixture)
