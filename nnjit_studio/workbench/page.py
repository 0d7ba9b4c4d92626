"""What a model runs on: the hub's page on one target, with compile process and database.

It knows neither Qt nor the command line.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from nnjit_studio import __version__
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import device_id
from nnjit_studio.device.measured import READ, MeasuredDevice, fixed_primitives
from nnjit_studio.device.primitives import passes_off
from nnjit_studio.engine.browsers.sandbox import UNTOUCHED, Sandbox, look
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.records.lab import is_lab, lab_of, lab_target
from nnjit_studio.workbench.runners import compiler_version, connect_device, make_runner

PAGE_TIMEOUT_S = 60.0


class SystemClock:
    """The real :class:`~nnjit_studio.tuner.protocols.Clock`."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def now_iso(self) -> str:
        return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def _lab_badges(flags: str) -> tuple[tuple[str, str], ...]:
    lab = lab_of(flags)
    if not lab:
        return ()
    text = (
        f"The engine runs with its experimental mode {lab!r}, which no visitor of a page has. "
        "Results are stored under a target of their own and never enter a bundle."
    )
    return ((f"lab: {lab}", text),)


class PageBench:
    """A page that runs kernels, what compiles them, and what remembers them.

    Parameters
    ----------
    database
        Path of the kernel database; made when missing.
    target
        Name of what runs the page, for the kernels' identity.
    flags
        Browser flags that are stored with every measurement.
    sandbox
        Of the engine, as far as it is known before a page runs.
    threads
        How many a kernel may run on.
    read_only
        Nothing is tuned, so the database stays as it is; another Studio may be writing it.
    backend
        Which kernels run.

    Attributes
    ----------
    fallback_reason
        Why Wasm runs in place of the GPU that was asked for; empty where it does not.
    sandbox
        From :meth:`connect` on as the page's process shows it.
    """

    def __init__(
        self,
        database: Path,
        target: str = "embedded",
        flags: str = "",
        sandbox: Sandbox = UNTOUCHED,
        threads: int = 1,
        read_only: bool = False,
        backend: Backend = WASM,
    ) -> None:
        reads = KernelDatabase.open_for_reading
        self.database = reads(database) if read_only else KernelDatabase.open(database)
        self.backend, self._engine, self._flags = backend, lab_target(target, flags), flags
        self.threads = threads
        self.fallback_reason = ""
        self._fixed = fixed_primitives(self.database.devices())
        self.compiler = CompileProcess()
        self.compiler.passes_off = passes_off(self._fixed)
        self.hub = Hub()
        self._use(backend)
        self.device: DeviceProfile | None = None
        self.sandbox = sandbox
        self._badges = _lab_badges(flags)
        self._folder = Path(tempfile.mkdtemp(prefix="nnjit-"))
        self._cancelled = threading.Event()
        self._opening = False

    def start(self) -> None:
        """Start the hub and warm up the compile process."""
        self.hub.start()
        threading.Thread(target=self.compiler.start, name="nnjit-warm-up", daemon=True).start()

    def close(self) -> None:
        """In this order: hub, compile process, database, files."""
        self.cancel()
        self.hub.close()
        self.compiler.close()
        self.database.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def page_url(self) -> str:
        return self.hub.url

    def expect_page(self, comes: bool, lost: str) -> None:
        """Tell what waits for the page whether one comes; ``lost`` is why the last one is gone.

        Models, kernels and sessions go on in the next page.
        """
        self.hub.expect_page(comes, lost)

    def badges(self) -> list[tuple[str, str]]:
        """What the window must show: text and tooltip."""
        badges = list(self._badges)
        if not self.sandbox.on:
            badges.insert(0, ("no sandbox", f"The web engine's sandbox is {self.sandbox}."))
        if self.fallback_reason:
            text = f"{self.fallback_reason} The model runs in Wasm now."
            badges.append(("WebGPU lost: Wasm runs", text))
        return badges

    def launched_with(self, flags: str) -> None:
        """Note the flags of the browser that will open the page."""
        if not is_lab(self._engine):
            self._engine = lab_target(self._engine, flags)
            self._badges += _lab_badges(flags)
        self._flags = flags
        self._use(self.backend)

    def cancel(self) -> None:
        """End what runs soon: an import, a session, work on the page; safe from any thread."""
        self._cancelled.set()
        if self._opening:
            self.runner.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called since the last job began."""
        return self._cancelled.is_set()

    def connect(self) -> DeviceProfile:
        """Wait for the page and learn what it can do; done once."""
        if self.device is None:
            self.hub.wait_for_page(PAGE_TIMEOUT_S)
            self.sandbox = look(self.sandbox)
            self.device = connect_device(
                self.runner, self.target, self.compiler, self.database, self._fixed
            )
        return self.device

    def _use(self, backend: Backend) -> None:
        """Settle the backend, before anything is asked of the page."""
        self.backend = backend
        self.target = backend.target(self._engine)
        self.compiler.version = compiler_version(backend)
        self.runner = make_runner(self.hub, self._engine, backend, self._flags, self.threads)

    @contextlib.contextmanager
    def cancellable(
        self, what: str, on_phase: Callable[[str], None]
    ) -> Iterator[Callable[[str], None]]:
        """A job on the page that :meth:`cancel` ends at its next phase or request.

        Raises
        ------
        UserError
            When it was cancelled.
        """
        cancelled = UserError(f"{what} was cancelled.")

        def phase(text: str) -> None:
            if self._cancelled.is_set():
                raise cancelled
            on_phase(text)

        self._cancelled.clear()
        self._opening = True
        try:
            yield phase
        except NnjitError:
            if not self._cancelled.is_set():
                raise
            raise cancelled from None
        finally:
            self._opening = False

    def fixed_primitives(self) -> dict[str, str]:
        """Settings on which all devices of the database agree."""
        return fixed_primitives(self.database.devices())

    def measured_device(self) -> MeasuredDevice | None:
        """What was last measured of this device in this target, in any session."""
        return self.database.device(device_id(), self.target)

    def bandwidth_gbs(self) -> Mapping[int, float]:
        """Measured 10^9 bytes a second that threads read from memory, by their number.

        Empty where the device experiments never ran on this device and target. Of a GPU:
        what its probe copied, under 1.
        """
        device = self.connect()
        if device.gpu is not None:
            return {1: device.gpu.copy_gbs} if device.gpu.copy_gbs else {}
        measured = self.database.device(device.device_id, device.target)
        return measured.bandwidth_gbs(READ) if measured else {}

    def versions(self) -> dict[str, str]:
        """What produced the results: program, compiler and engine."""
        engine = self.device.user_agent if self.device else "no page yet"
        return {
            "nnjit-studio": __version__,
            "compiler": self.compiler.version,
            "engine": engine,
        }
