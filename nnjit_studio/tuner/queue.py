"""Compile ahead: kernels and reference results are made while the page measures."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from nnjit_studio.model import Workload
from nnjit_studio.records import CompileResult, Fixture, Kernel
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.tuner.protocols import Compiler

Job = tuple[Workload, AnyCandidate | None, Sequence[str]]
KEPT_BYTES = 256 << 20
"""Fixtures that are kept for the next turn of their workload."""
DROP_S = 0.1
PARTING_S = 0.5


class References:
    """Seeded inputs with their reference results, made by a thread of their own, in order.

    Kernels need not wait for them: the reference of a large product takes seconds of processor
    time. Use as a context manager: leaving it ends what is being made.
    """

    def __init__(self, compiler: Compiler, cache_bytes: int = KEPT_BYTES) -> None:
        self._compiler, self._cache_bytes = compiler, cache_bytes
        self._made: dict[str, Future[Fixture]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="references")

    def __enter__(self) -> References:
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        while left := [f for f in self._made.values() if not f.done()]:
            self.drop()  # again: it may have waited for somebody else's
            wait(left, timeout=DROP_S)
        self._thread.shutdown()

    def drop(self) -> None:
        """End what is being made, and what was not begun; nothing more is asked for."""
        for key, future in self._made.items():
            if not future.cancel() and not future.done():
                self._compiler.drop_reference(key)

    def ahead(self, workload: Workload) -> Future[Fixture]:
        """Have one made that will be asked for soon; what becomes of it."""
        if workload.key not in self._made:
            self._made[workload.key] = self._thread.submit(self._compiler.fixture, workload)
        return self._made[workload.key]

    def has(self, workload: Workload) -> bool:
        """Whether :meth:`get` does not wait for it."""
        return workload.key in self._made and self._made[workload.key].done()

    def get(self, workload: Workload) -> Fixture:
        """Waits for it; kept for tunable workloads, which have several turns."""
        fixture = self.ahead(workload).result()
        found = self._made.pop(workload.key)
        if workload.tunable:
            self._made[workload.key] = found
        done = {k: _nbytes(f.result()) for k, f in self._made.items() if _is_made(f)}
        for key in list(done)[:-1]:
            if sum(done.values()) <= self._cache_bytes:
                break
            del self._made[key], done[key]
        return fixture


class KernelQueue:
    """A bounded queue of compiled kernels, filled by one thread.

    Use as a context manager: leaving it waits for a moment for the thread to end; a kernel that
    takes longer is given up.

    Parameters
    ----------
    depth
        How many results may be ready or in the making at once.

    Attributes
    ----------
    references
        Of the same compiler.
    """

    def __init__(self, compiler: Compiler, depth: int = 3, cache_bytes: int = KEPT_BYTES) -> None:
        self._compiler = compiler
        self._depth = depth
        self.references = References(compiler, cache_bytes)
        self._waiting: deque[Job] = deque()
        self._running: deque[Future[CompileResult]] = deque()
        self._ahead: dict[tuple[str, str, tuple[str, ...]], Future[CompileResult]] = {}
        self._jobs: list[Future[CompileResult]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compile-ahead")

    def __enter__(self) -> KernelQueue:
        return self

    def __exit__(self, *exc: object) -> None:
        with self.references:
            self._thread.shutdown(wait=False, cancel_futures=True)
            if not wait(self._jobs, timeout=PARTING_S).not_done:
                self._thread.shutdown()

    def put(self, workload: Workload, candidate: AnyCandidate | None, tiers: Sequence[str]) -> None:
        """Ask for a kernel; results come in the order of asking."""
        self._waiting.append((workload, candidate, tiers))
        self._fill()

    def next(self) -> Future[CompileResult]:
        """What :meth:`get` waits for."""
        return self._running[0]

    def get(self) -> CompileResult:
        """The next result; waits for it, and passes on what the compiler raised.

        Raises
        ------
        IndexError
            When nothing was asked for.
        """
        result = self._running.popleft().result()
        self._fill()
        return result

    def soon(
        self, workload: Workload, candidate: AnyCandidate | None, tiers: Sequence[str]
    ) -> Future[CompileResult]:
        """A kernel outside the order of asking, behind those in the making."""
        known = self._ahead.pop(_job(workload, candidate, tiers), None)
        return known or self._submit((workload, candidate, tiers))

    def at_once(
        self, workload: Workload, candidate: AnyCandidate | None, tiers: Sequence[str]
    ) -> CompileResult:
        """The same, waited for."""
        return self.soon(workload, candidate, tiers).result()

    def ahead(self, workload: Workload, candidate: AnyCandidate, tiers: Sequence[str]) -> None:
        """Make a kernel that will probably be asked for by :meth:`at_once`."""
        job = _job(workload, candidate, tiers)
        if job not in self._ahead:
            self._ahead[job] = self._submit((workload, candidate, tiers))

    def made_ahead(self) -> list[Kernel]:
        """Kernels that were made ahead and are ready."""
        ready = [f for f in self._ahead.values() if f.done() and not f.cancelled()]
        return [kernel for f in ready if not f.exception() for kernel in f.result().kernels]

    def forget(self) -> None:
        """Drop what was made ahead and not asked for."""
        for future in self._ahead.values():
            future.cancel()
        self._ahead.clear()

    def background(self, work: Callable[[], object]) -> None:
        """Have the thread do this too, after what it was asked for before."""
        self._thread.submit(work)

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._depth:
            self._running.append(self._submit(self._waiting.popleft()))

    def _submit(self, job: Job) -> Future[CompileResult]:
        future = self._thread.submit(self._compiler.compile, *job)
        self._jobs = [other for other in self._jobs if not other.done()] + [future]
        return future


def _job(
    workload: Workload, candidate: AnyCandidate | None, tiers: Sequence[str]
) -> tuple[str, str, tuple[str, ...]]:
    return workload.key, settings_of(candidate), tuple(tiers)


def _is_made(future: Future[Fixture]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _nbytes(fixture: Fixture) -> int:
    inputs = sum(len(arg.data) for arg in fixture.args if arg.data is not None)
    return inputs + sum(a.nbytes for a in (*fixture.expected, *fixture.bound))
