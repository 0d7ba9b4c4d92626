"""What the window needs from the core: one protocol, so that tests can play it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from nnjit_studio.analysis.backends import BackendComparison
from nnjit_studio.analysis.diff import Diff
from nnjit_studio.analysis.kernel import KernelInspection
from nnjit_studio.analysis.profile import ModelProfile
from nnjit_studio.database import Measurement
from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.engine.browsers.sandbox import Sandbox
from nnjit_studio.generation.session import TextEvent, TextRequest
from nnjit_studio.records import DeviceProfile, TuningRecord
from nnjit_studio.records.backend import Backend
from nnjit_studio.records.serving import ServeOptions
from nnjit_studio.space.lite_space import Verdict
from nnjit_studio.tuner.events import Event

if TYPE_CHECKING:
    from nnjit_studio.workbench import OpenedModel

OnPhase = Callable[[str], None]
OnProgress = Callable[[int, int], None]


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
    """What the engine's view can do beside being a widget."""

    page_lost: Any

    def start(self) -> None:
        """Load the page."""

    def shut_down(self) -> None:
        """End page and profile, in that order; may be called again."""


class TextMaker(Protocol):
    """Makes text with a decoder; blocking, one call at a time, ended by the workbench's cancel."""

    def generate(self, request: TextRequest, on_phase: OnPhase) -> Iterator[TextEvent]:
        """Go on with a text; blocks between tokens."""

    def check(self, on_phase: OnPhase) -> dict[str, Any]:
        """The last text beside native ONNX Runtime's."""

    def forget(self) -> None:
        """The page was lost, and what it held."""

    def close(self) -> None:
        """Take files away."""


class Workbench(Protocol):
    """The facade that the window drives.

    Blocking calls are made from worker threads, one at a time; only
    ``cancel``, ``request``, ``explain``, ``pause``, ``set_seconds_left`` and
    ``set_serving_budget`` (any thread) and ``records`` (a second worker) may run
    beside them.
    """

    page_url: str
    backend: Backend
    model: OpenedModel | None
    database: Records
    sandbox: Sandbox

    def connect(self) -> DeviceProfile:
        """Wait for the page and learn what it can do."""

    def expect_page(self, comes: bool, lost: str) -> None:
        """Whether a page comes; ``lost`` is why the last one is gone, empty for the first."""

    def prefer_backend(self, backend: Backend) -> None:
        """Settle the backend before anything was asked of the page."""

    def use_backend(self, backend: Backend, on_phase: OnPhase) -> DeviceProfile:
        """Run the open model on another backend; when that fails, on the one before."""

    def compare_backends(self, on_phase: OnPhase) -> BackendComparison:
        """Wasm and WebGPU on the open model, whole and by step."""

    def open_model(
        self, path: Path, on_phase: OnPhase, *, on_imported: Callable[[OpenedModel], None]
    ) -> OpenedModel:
        """Import a model, tell of it, and load it into the page.

        Raises
        ------
        NnjitError
            The model that was open before stays open.
        """

    def tune(self, seconds: float | None = None) -> Iterator[Event]:
        """Tune the open model; blocks between events. Ends after ``Paused`` too."""

    def pause(self, pausing: bool = True) -> bool:
        """Have the running session pause after its round, or not; False when none runs."""

    def resume(self, stop: bool = False) -> Iterator[Event]:
        """Go on with the paused session, or end it with its summary."""

    def set_seconds_left(self, seconds: float | None) -> bool:
        """Change the budget of the session, running or paused; False when there is none."""

    def seconds_left(self) -> float | None:
        """Of the session's budget; None without a limit or a session. Any thread may ask."""

    def serve(self, options: ServeOptions) -> None:
        """Have the page run the open model on and on; sessions keep to its budget."""

    def stop_serving(self) -> None:
        """Let the page rest."""

    def set_serving_budget(self, share: float) -> None:
        """Change what tuning may add to the serving model's p95."""

    def explain(self, workload: str, settings: str) -> list[Verdict]:
        """Every rule's answer on a candidate of the open model's workload; does not block.

        Raises
        ------
        UserError
            When the text is no candidate, or the workload has no lite space.
        """

    def inspect(self, workload: str, settings: str) -> KernelInspection:
        """A candidate from the inside, or without settings the kernel that runs.

        A worker of its own may ask beside everything else.
        """

    def run_kernel(self, workload: str, settings: str) -> Iterator[Event]:
        """Run the open model with a kernel that was measured and is right."""

    def try_candidate(self, workload: str, settings: str) -> Iterator[Event]:
        """Compile, check and time one candidate beside the kernel that runs."""

    def request(self, workload: str, settings: str) -> bool:
        """Have it measured next by the running session; False when none runs. Thread-safe."""

    def measure_device(self, on_phase: OnPhase) -> MeasuredDevice:
        """Run the device experiments in the page and store what they find."""

    def measured_device(self) -> MeasuredDevice | None:
        """What was last measured of this device; a third worker may ask."""

    def profile(self, on_phase: OnPhase, *, cold: bool = False) -> ModelProfile:
        """Where the open model's time and memory go; ``cold`` opens its file anew."""

    def diff(self, name: str, on_phase: OnPhase) -> Diff:
        """Tensors of the open model, or of one step, beside native ONNX Runtime."""

    def onnx_attributes(self) -> dict[str, dict[str, str]]:
        """``op`` and attributes of the open model's ONNX nodes, by name; any thread may ask.

        Raises
        ------
        UserError
            When the file is not there any more.
        """

    def cancel(self) -> None:
        """End what blocks soon. Thread-safe."""

    def export(self, out: Path) -> Path:
        """Write the tuned kernel bundle, a zip."""

    def report(self, out: Path) -> Path:
        """Write the self-contained HTML report."""

    def records(self) -> list[TuningRecord]:
        """What the kernel database has of the open model's workloads, newest first."""

    def badges(self) -> list[tuple[str, str]]:
        """Short text and tooltip of what the user must know of this session."""
