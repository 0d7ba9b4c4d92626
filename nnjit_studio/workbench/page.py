"""The engine's page: the hub that it comes to, the runner that asks it, the device behind it."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Protocol

from nnjit_studio import __version__
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import device_id
from nnjit_studio.device.measured import READ, MeasuredDevice, fixed_primitives
from nnjit_studio.device.primitives import passes_off
from nnjit_studio.engine.browsers.sandbox import Sandbox, look
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.backend import Backend, choose_backend
from nnjit_studio.records.lab import is_lab, lab_of, lab_target
from nnjit_studio.support.phases import OnPhase
from nnjit_studio.support.temporary import process_folder
from nnjit_studio.workbench.runners import (
    compiler_version,
    connect_device,
    make_runner,
    tiers_of_backend,
)
from nnjit_studio.workbench.stored_best import Here

PAGE_TIMEOUT_S = 60.0


class SystemClock:
    """The real :class:`~nnjit_studio.tuner.protocols.Clock`."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def now_iso(self) -> str:
        return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")

    def wait(self, done: Future[Any], seconds: float) -> None:
        wait([done], timeout=seconds)


class Tenant(Protocol):
    """A model that is loaded in the page."""

    def leave(self) -> None:
        """Another model is about to be loaded: whatever runs this one ends."""


def _lab_badges(flags: str) -> tuple[tuple[str, str], ...]:
    lab = lab_of(flags)
    if not lab:
        return ()
    text = (
        f"The engine runs with its experimental mode {lab!r}, which no visitor of a page has. "
        "Results are stored under a target of their own and never enter a bundle."
    )
    return ((f"lab: {lab}", text),)


class EnginePage:
    """A page that runs kernels, on one backend of one target.

    Parameters
    ----------
    process
        Imports the models and makes the kernels that run here, and those that measure the device.
    database
        Knows what was measured of devices before.
    target
        Name of what runs the page, for the kernels' identity.
    flags
        Browser flags that are stored with every measurement.
    sandbox
        Of the engine, as far as it is known before a page runs.
    threads
        How many a kernel may run on.
    backend
        Which kernels run.
    importing
        How models are imported, where their files leave it open.

    Attributes
    ----------
    compiler
        Of the backend's kernels.
    device
        What the page told of itself; None until :meth:`connect`.
    fallback_reason
        Why Wasm runs in place of the GPU that was asked for; empty where it does not.
    guest
        Identity of the device whose page it is, where that is not this machine.
    sandbox
        From :meth:`connect` on as the page's process shows it.
    """

    def __init__(
        self,
        process: CompileProcess,
        database: KernelDatabase,
        target: str,
        flags: str,
        sandbox: Sandbox,
        threads: int,
        backend: Backend,
        importing: ImportOptions,
    ) -> None:
        self.process, self.database, self.importing = process, database, importing
        self.threads = threads
        self.fallback_reason = ""
        self.device: DeviceProfile | None = None
        self.sandbox = sandbox
        self.guest = ""
        self.hub = Hub()
        self._engine, self._flags = lab_target(target, flags), flags
        self._badges = _lab_badges(flags)
        self._fixed = fixed_primitives(database.devices())
        self._tenant: Tenant | None = None
        self._cancelled = threading.Event()
        self._busy = self._ended = False
        self._folder = Path(tempfile.mkdtemp(prefix="page-", dir=process_folder()))
        self._models = 0
        self.use(backend)

    def close(self) -> None:
        """In this order: hub, compile process, files of models."""
        self.hub.close()
        self.process.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return self.hub.url

    def expect(self, comes: bool, lost: str) -> None:
        """Tell what waits for the page whether one comes; ``lost`` is why the last one is gone.

        Models, kernels and sessions go on in the next page.
        """
        self.hub.expect_page(comes, lost)

    def badges(self) -> list[tuple[str, str]]:
        """Short text and tooltip of what the user must know of this page."""
        badges = list(self._badges)
        if not self.sandbox.on:
            badges.insert(0, ("no sandbox", f"The web engine's sandbox is {self.sandbox}."))
        if not self.database.kept:
            badges.append(("results are not kept", self.database.why_not_kept))
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
        self.use(self.backend)

    # Backend and device

    def use(self, backend: Backend) -> None:
        """Settle the backend; the page is asked anew what it can do on it."""
        self.backend, self.device = backend, None
        self.target = backend.target(self._engine)
        version = compiler_version(backend)
        self.compiler = Compiler(self.process, version, passes_off(self._fixed))
        self.runner = make_runner(self.hub, self._engine, backend, self._flags, self.threads)

    def webgpu(self) -> Backend:
        """WebGPU as this engine has it."""
        return choose_backend("webgpu", "auto", self._engine)

    def prefer(self, backend: Backend) -> None:
        """Settle the backend of the models to come, before the page was asked anything."""
        if self.device is None and self._tenant is None:
            self.use(backend)

    def connect(self) -> DeviceProfile:
        """Wait for the page and learn what it can do; done once for a backend."""
        if self.device is None:
            self.hub.wait_for_page(PAGE_TIMEOUT_S)
            self.sandbox = look(self.sandbox)
            self.device = connect_device(
                self.runner, self.target, self.process, self.database, self._fixed, self.guest
            )
        return self.device

    def here(self, backend: Backend) -> Here:
        """Where kernels of a backend would run, for what the database knows of such places."""
        return Here(
            compiler_version(backend),
            backend.target(self._engine),
            1 if backend.is_gpu else self.threads,
            self.device if backend == self.backend else None,
            tiers_of_backend(backend),
            backend.software,
        )

    def fixed_primitives(self) -> dict[str, str]:
        """Settings on which all devices of the database agree."""
        return fixed_primitives(self.database.devices())

    def measured_device(self) -> MeasuredDevice | None:
        """What was last measured of this device in this target, in any session."""
        return self.database.device(self.guest or device_id(), self.target)

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
        """Versions of what produced the results: program, compiler and engine."""
        engine = self.device.user_agent if self.device else "no page yet"
        return {
            "nnjit-studio": __version__,
            "compiler": self.compiler.version,
            "engine": engine,
        }

    # Models that take turns

    def weights_file(self) -> Path:
        """A new path for the weights of a model."""
        self._models += 1
        return self._folder / f"weights-{self._models}.bin"

    def hand_to(self, tenant: Tenant) -> None:
        """Let a model have the page; another one that has it leaves."""
        before, self._tenant = self._tenant, tenant
        if before is not None and before is not tenant:
            before.leave()

    # Work that can be cancelled

    def cancel(self) -> None:
        """End what runs soon: an import, a session, work on the page; safe from any thread."""
        self._cancelled.set()
        if self._busy:
            self.runner.cancel()

    def end(self) -> None:
        """As :meth:`cancel`, for good: sessions end too, and nothing begins any more."""
        self._ended = True
        self._cancelled.set()
        self.runner.cancel()

    @property
    def ended(self) -> bool:
        """Whether :meth:`end` was called: what was changed for a job is not put back then."""
        return self._ended

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called since the last job began."""
        return self._cancelled.is_set()

    def begin(self) -> None:
        """Forget an earlier cancel: a job begins.

        Raises
        ------
        UserError
            After :meth:`end`.
        """
        self._cancelled.clear()
        if self._ended:  # asked last: the other thread may end it right now
            self._cancelled.set()
            raise UserError("The Studio is closing.")

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """A job that waits for the page: :meth:`cancel` ends its requests too."""
        self.begin()
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    @contextlib.contextmanager
    def cancellable(self, what: str, on_phase: OnPhase) -> Iterator[OnPhase]:
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

        with self.working():
            try:
                yield phase
            except NnjitError:
                if not self._cancelled.is_set():
                    raise
                raise cancelled from None

    def compiler_killed_on_cancel(self) -> contextlib.AbstractContextManager[None]:
        """Within the block, the compile process is killed soon after :meth:`cancel`."""
        return self.acting_on_cancel(self.process.kill)

    @contextlib.contextmanager
    def acting_on_cancel(self, act: Callable[[], object], after_s: float = 0.0) -> Iterator[None]:
        """Within the block, ``act`` is called so long after :meth:`cancel`, in another thread, and
        again where it returns False.
        """
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.1):
                waited = self.cancelled and not stop.wait(after_s) and self.cancelled
                if waited and act() is not False:
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
