"""Compile processes that take settings in turns, and what they made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from queue import LifoQueue
from typing import Any

from nnjit_studio.commons.kernels.lots import LOT
from nnjit_studio.commons.kernels.programs import FOLDER, read_program
from nnjit_studio.commons.kernels.shelf import Shelf
from nnjit_studio.commons.kernels.wanted import Wanted
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.errors import CommonsError, UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space.lite_space import build_lite_space

_MOST_PROGRAMS = 500
"""Workloads that a process is told; then a new one takes its place."""


class _Maker:
    """A compile process with the workloads that it was told."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._process = CompileProcess()
        self._process.start()
        self._known: dict[str, tuple[Workload, bool]] = {}
        self._defined = 0

    def define(self, key: str) -> tuple[Workload, bool]:
        """The workload of a key, and whether its B is packable."""
        if key not in self._known:
            if self._defined >= _MOST_PROGRAMS:
                self._process.close()
                self._process, self._known, self._defined = CompileProcess(), {}, 0
            self._defined += 1
            written = read_program(self._programs, key)
            if written is not None:
                workload, packable = self._process.adopt(written.text)[0], written.packable
            else:
                workload, packable = self._process.define(key.split("#")[0])
            if workload.key != key:
                raise CommonsError(
                    f"The name of {key} does not tell it whole, and its program is not known here.",
                    "Export the model with --programs and give the server that folder.",
                )
            self._known[key] = workload, packable
        return self._known[key]

    def compile(self, key: str, candidate: AnyCandidate, tier: str) -> Any:
        """As of the Studio's own compiler."""
        workload, _ = self.define(key)
        return Compiler(self._process).compile(workload, candidate, (tier,))

    def close(self) -> None:
        self._process.close()


class Pool:
    """So many compile processes. Thread-safe.

    Parameters
    ----------
    shelf
        Where kernels are kept.
    """

    def __init__(self, shelf: Shelf, processes: int) -> None:
        self.shelf = shelf
        self._makers = [_Maker(shelf.folder / FOLDER) for _ in range(processes)]
        self._idle: LifoQueue[_Maker] = LifoQueue()
        for maker in self._makers:
            self._idle.put(maker)
        self._threads = ThreadPoolExecutor(processes, "nnjit-pool")
        self._space = lru_cache(maxsize=1024)(self._composed)

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(cancel_futures=True)
        for maker in self._makers:
            maker.close()

    def answer(self, wanted: Wanted, may: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        """The next candidates for a page, as JSON; those that do not compile are left out.

        Parameters
        ----------
        may
            Asked before each kernel that has to be compiled; False ends the answer there.

        Raises
        ------
        CommonsError
            When the server cannot compose such a workload, or nothing of it may be compiled now.
        """
        space = self._space(wanted.workload, wanted.registers, wanted.l1, wanted.l2, wanted.tier)
        key, tier = wanted.workload, wanted.tier
        batch, ready = space[wanted.after : wanted.after + LOT], []
        for candidate in batch:
            held = self.shelf.header(key, tier, str(candidate))
            if held is None and not may():
                break
            ready.append(held or self._threads.submit(self._make, key, candidate, tier))
        if batch and not ready:
            raise CommonsError("The budget of this client is used up.", "Ask again later.")
        headers = [each if isinstance(each, dict) else each.result() for each in ready]
        after = wanted.after + len(ready)
        return {
            "workload": key,
            "tier": tier,
            "candidates": len(space),
            "after": after,
            "kernels": [h for h in headers if h is not None],
        }

    def _make(self, key: str, candidate: AnyCandidate, tier: str) -> dict[str, Any] | None:
        """Header of a kernel that is compiled now; None where that fails."""
        with self._maker() as maker:
            made = maker.compile(key, candidate, tier)
        return None if made.error else self.shelf.keep(made.kernel(tier))

    def _composed(
        self, key: str, registers: int, l1: int, l2: int, tier: str
    ) -> Sequence[AnyCandidate]:
        """The lite space of a workload on such a processor."""
        device = Wanted(key, tier, registers, l1, l2, 0).device
        try:
            with self._maker() as maker:
                workload, packable = maker.define(key)
            return [e.candidate for e in build_lite_space(workload, device, packable).entries]
        except UserError as e:
            raise CommonsError(e.error, e.hint) from e

    @contextmanager
    def _maker(self) -> Iterator[_Maker]:
        maker = self._idle.get()
        try:
            yield maker
        finally:
            self._idle.put(maker)
