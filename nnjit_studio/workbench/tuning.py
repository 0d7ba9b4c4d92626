"""Sessions that tune the open model: one at a time, which may pause and go on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from nnjit_studio.errors import UserError
from nnjit_studio.model.feeds import example_feeds
from nnjit_studio.model.placement import GPU
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.records.serving import ServeOptions
from nnjit_studio.tuner import TunedModel, TuneOptions, TuningContext, TuningSession
from nnjit_studio.tuner.events import Event, Failed, FellBack, Paused, SpaceBuilt, Swapped
from nnjit_studio.tuner.protocols import Records
from nnjit_studio.workbench.divided import run_by
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import MAIN
from nnjit_studio.workbench.page import SystemClock
from nnjit_studio.workbench.patience import PatientRecords

Events = Generator[Event, None, None]
"""Of a session, which goes on when the next one is asked for."""
STOP_S = 2.0
"""From *Stop* to the end of a reference that is being made: an LSTM's takes half a minute."""


def session_of(
    model: ModelOnPage,
    options: TuneOptions,
    name: str = MAIN,
    records: Records | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> TuningSession:
    """A session for one program of the open model, which the page holds.

    ``records`` takes the place of the database. Of a divided model the GPU's workloads are tuned.
    """
    page, program = model.page, model.current.program(name)
    divided = page.backend.is_gpu and model.current.mixed is not None
    return TuningSession(
        TunedModel(
            program.graph.name,
            program.plan,
            tuple(run_by(model.current, GPU)) if divided else program.workloads,
            example_feeds([p.spec for p in program.plan.inputs]) if name else model.feeds,
            program.packable,
        ),
        TuningContext(
            page.runner.for_plan(name) if name else page.runner,
            page.compiler,
            records or PatientRecords(page.database, lambda: page.cancelled),
            page.connect(),
            SystemClock(),
        ),
        options,
        cancelled,
    )


class Tuning:
    """Tunes the open model.

    Attributes
    ----------
    program
        Name of the program whose session runs, in the page's words.
    """

    def __init__(self, model: ModelOnPage) -> None:
        self._model = model
        self._session: TuningSession | None = None
        self._rested: tuple[Events, object] | None = None
        self._serves = False
        self.program = MAIN

    def start(
        self,
        seconds: float | None = None,
        full_speed: bool = False,
        exhaustive: bool = False,
        serve: ServeOptions | None = None,
        program: str | None = None,
    ) -> Iterator[Event]:
        """Tune the open model, which may be serving; events as in ``tuner.events``.

        Ends after ``Paused`` too: :meth:`resume` goes on, and all else may be done before.

        Parameters
        ----------
        seconds
            Of all programs together; without a limit when None.
        serve
            Have the model serve until the session is over.
        program
            Tune this one alone, by the page's name.
        """
        self.drop()
        self._serves = serve is not None
        if serve is not None:
            self._model.serve(serve)
        options = TuneOptions(seconds=seconds, full_speed=full_speed, exhaustive=exhaustive)
        yield from self._until_paused(self._programs(options, program))

    def pause(self, pausing: bool = True) -> bool:
        """Have the running session pause after its round; False when none runs. Thread-safe."""
        session = self._session
        if session is not None:
            session.pause(pausing)
        return session is not None

    def resume(self, stop: bool = False) -> Iterator[Event]:
        """Go on with the paused session; where the backend has changed, with a new one.

        With ``stop`` it only times the model and sums up.

        Raises
        ------
        UserError
            When no session is paused.
        """
        rested, session = self._rested, self._session
        if rested is None or session is None:
            raise UserError("No tuning is paused.", "Start it: it goes on from what is known.")
        events, runner = rested
        page = self._model.page
        if runner is page.runner:
            self._rested = None
            page.begin()
            if stop:
                page.cancel()
            yield from self._until_paused(events)
        elif stop:
            self.drop()
        else:
            yield from self.start(session.seconds_left)

    def drop(self) -> None:
        """End a session that pauses, without a summary; what it measured is in the database."""
        if self._rested is not None:
            self._rested[0].close()
            self._rested = None

    def set_seconds_left(self, seconds: float | None) -> bool:
        """Give the session so many seconds from now on; False when there is none. Thread-safe."""
        session = self._session
        if session is not None:
            session.set_seconds_left(seconds)
        return session is not None

    def seconds_left(self) -> float | None:
        """Of the session's budget; None without a limit or a session. Thread-safe."""
        session = self._session
        return None if session is None else session.seconds_left

    def set_serving_budget(self, share: float) -> None:
        """Change what tuning may add to the latency of the serving model. Thread-safe."""
        self._model.serve_options = replace(self._model.serve_options, budget=share)

    def request(self, workload: str, settings: str, enough: float | None = None) -> bool:
        """Have a running session measure the candidate next; False when none runs. Thread-safe.

        Parameters
        ----------
        enough
            Speed-up over the default that ends the search of this workload; None ends nothing.

        Raises
        ------
        UserError
            When the text is no candidate.
        """
        candidate, session = parse_candidate(settings), self._session
        if session is None:
            return False
        session.request(workload, candidate, enough)
        return True

    def _until_paused(self, events: Events) -> Iterator[Event]:
        page = self._model.page
        try:
            with page.acting_on_cancel(page.process.kill_reference, STOP_S):
                for event in events:
                    if isinstance(event, Paused):
                        self._rested = events, page.runner
                    yield event
                    if self._rested is not None:
                        return
        finally:
            if self._serves and self._rested is None:
                self._serves = False
                self._model.stop_serving()

    def _programs(self, options: TuneOptions, only: str | None) -> Events:
        """Sessions of the model's programs, one after the other, each with its part of the time."""
        model, clock = self._model, SystemClock()
        began_s = clock.monotonic_s()
        programs = tuple(model.current.programs) if only is None else (only,)
        if model.page.backend.is_gpu and model.current.mixed:
            model.register_best()  # Wasm's kernels stay what they are
        model.take_page()
        model.cold = None
        model.page.begin()
        if model.serving:
            options = replace(options, served=model.served)
        events: list[Event] = []
        model.events = events
        seconds, spent_s = options.seconds, clock.monotonic_s() - began_s
        for done, name in enumerate(programs):
            if seconds is not None:
                left_s = max(0.0, seconds - spent_s)
                options = replace(options, seconds=left_s / (len(programs) - done))
            if len(model.current.programs) > 1:
                # Kernels of the other program may hold a common weight in other panels.
                model.page.runner.register([], only=True)
            self.program = name
            session = session_of(model, options, name, cancelled=lambda: model.page.cancelled)
            yield from self._followed(session, events)
            spent_s += events[-1].t_s if events else 0.0

    def _followed(self, session: TuningSession, events: list[Event]) -> Events:
        """The events of a session, with their effect on the kernels that run."""
        model, serving = self._model, self._model.serving
        self._session = session
        try:
            for event in session.run():
                events.append(event)
                if isinstance(event, SpaceBuilt):
                    # Until something wins here, the default is the best: winners of other
                    # targets were never compared with it.
                    model.choose(event.workload, None)
                    model.registered = True
                elif isinstance(event, Swapped):
                    model.choose(event.workload, parse_candidate(event.candidate))
                elif isinstance(event, Failed) and (gone := model.page.runner.gone):
                    model.fall_back(gone)
                    yield FellBack(event.t_s, gone.error, model.page.target)
                chosen = model.chosen
                yield event
                if isinstance(event, Paused):  # anything may have been done with the page
                    model.take_page()
                    model.chosen, model.registered = chosen, True
                    if serving and not model.serving:
                        model.serve(model.serve_options)
        finally:
            self._session = None
