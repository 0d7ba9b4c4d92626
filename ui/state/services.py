"""What the window needs from the core, as protocols, so that tests can play it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

from nnjit_studio.database import Measurement
from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.engine.browsers.sandbox import Sandbox
from nnjit_studio.generation.session import TextEvent, TextRequest
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.backend import Backend
from nnjit_studio.records.serving import ServeOptions
from nnjit_studio.tuner.events import Event
from nnjit_studio.workbench import ModelOnPage, OpenModel

OnPhase = Callable[[str], None]
OnProgress = Callable[[int, int], None]
P = ParamSpec("P")
T = TypeVar("T")


class Records(Protocol):
    """The kernel database; every call may block, from any thread."""

    path: Path

    def measurements(self) -> list[Measurement]:
        """Every record as a line of a table, newest first, deleted ones too."""

    def annotate(self, remarks: Mapping[int, tuple[str, str]]) -> None:
        """Set note and tags of records by their ids."""

    def delete(self, ids: Sequence[int]) -> None:
        """Put records aside."""

    def restore(self, ids: Sequence[int]) -> None:
        """Bring deleted records back."""

    def look_into(self, path: Path) -> list[Measurement]:
        """What an import would read of a file."""

    def import_from(self, path: Path, on_progress: OnProgress) -> int:
        """Add the records of a file, all or none; how many were new."""

    def export_to(self, path: Path, *, on_progress: OnProgress) -> int:
        """Write all records to a file; how many."""


@runtime_checkable
class EnginePage(Protocol):
    """What the engine's view can do besides being a widget."""

    page_lost: Any

    def start(self) -> None:
        """Load the page."""

    def shut_down(self) -> None:
        """End page and profile, in that order; may be called again."""


class TextMaker(Protocol):
    """Makes text with a decoder; blocking, one call at a time, ended by the page's cancel."""

    def generate(self, request: TextRequest, on_phase: OnPhase) -> Iterator[TextEvent]:
        """Go on with a text; blocks between tokens."""

    def check(self, on_phase: OnPhase) -> dict[str, Any]:
        """Compare the last text with native ONNX Runtime's."""

    def forget(self) -> None:
        """The page was lost, and what it held."""


class Page(Protocol):
    """The page that runs kernels; any thread may cancel, a third worker ask for the device."""

    backend: Backend
    sandbox: Sandbox

    @property
    def url(self) -> str: ...

    def connect(self) -> DeviceProfile:
        """Wait for the page and learn what it can do."""

    def expect(self, comes: bool, lost: str) -> None:
        """Whether a page comes; ``lost`` is why the last one is gone, empty for the first."""

    def prefer(self, backend: Backend) -> None:
        """Settle the backend before anything was asked of the page."""

    def measured_device(self) -> MeasuredDevice | None:
        """What was last measured of this device."""

    def badges(self) -> list[tuple[str, str]]:
        """Short text and tooltip of what the user must know of this page."""

    def cancel(self) -> None:
        """End what blocks soon."""


class Tuning(Protocol):
    """Sessions on the open model; but for the events, any thread may ask."""

    def start(
        self, seconds: float | None = None, *, serve: ServeOptions | None = None
    ) -> Iterator[Event]:
        """Tune, serving meanwhile if asked to; blocks between events. Ends after ``Paused`` too."""

    def pause(self, pausing: bool = True) -> bool:
        """Have the running session pause after its round, or not; False when none runs."""

    def resume(self, stop: bool = False) -> Iterator[Event]:
        """Go on with the paused session, or end it with its summary."""

    def set_seconds_left(self, seconds: float | None) -> bool:
        """Change the budget of the session, running or paused; False when there is none."""

    def seconds_left(self) -> float | None:
        """Of the session's budget; None without a limit or a session."""

    def set_serving_budget(self, share: float) -> None:
        """Change what tuning may add to the serving model's p95."""

    def request(self, workload: str, settings: str) -> bool:
        """Have a candidate measured next by the running session; False when none runs."""


class Workbench(Protocol):
    """Parts of the core, and the way to its jobs.

    Blocking calls are made from worker threads, one at a time; only the jobs ``explain`` (any
    thread), ``records``, ``inspect`` and ``onnx_attributes`` (workers of their own) may run
    during others.
    """

    @property
    def page(self) -> Page: ...

    @property
    def model(self) -> ModelOnPage: ...

    @property
    def tuning(self) -> Tuning: ...

    @property
    def database(self) -> Records: ...

    def open_model(
        self, path: Path, on_phase: OnPhase, *, on_imported: Callable[[OpenModel], None]
    ) -> OpenModel:
        """Import a model, tell of it, and load it into the page.

        Raises
        ------
        NnjitError
            The model that was open before stays open.
        """

    def run(
        self, job: Callable[Concatenate[ModelOnPage, P], T], *args: P.args, **given: P.kwargs
    ) -> T:
        """Do a job of :mod:`nnjit_studio.workbench.jobs` on the open model."""
