"""The compiler of kernels: a compile process, and what its kernels have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.operations import Compiled
from nnjit_studio.compiler.process.results import KernelTexts
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.records import CompileResult, Fixture, Kernel
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.support.phases import OnPhase, quiet


@dataclass(frozen=True)
class Compiler:
    """The ``Compiler`` of the tuner."""

    process: CompileProcess
    """Shared by all compilers of a program."""
    version: str = COMPILER_VERSION
    """Part of the identity of the kernels."""
    passes_off: tuple[str, ...] = ()
    """Optional passes that kernels are made without, unless they ask for passes by name."""

    def compile(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tiers: Sequence[str],
        passes: Collection[str] | None = None,
    ) -> CompileResult:
        """A kernel for each tier. A failure is a result with an error."""
        try:
            reply = self._made(workload, candidate, tiers, passes)
        except CompileError as e:
            return CompileResult(workload.key, candidate, error=e.error)
        kernels = tuple(code.kernel(workload.key, candidate) for code in reply.codes)
        return CompileResult(workload.key, candidate, kernels, reply.ms, reply.pass_ms)

    def kernels(
        self, workload: Workload, candidate: AnyCandidate | None, tiers: Sequence[str]
    ) -> tuple[Kernel, ...]:
        """A kernel for each tier.

        Raises
        ------
        CompileError
            When the candidate does not compile.
        """
        result = self.compile(workload, candidate, tiers)
        if result.error:
            raise CompileError(f"{workload.name} does not compile: {result.error}")
        return result.kernels

    def kernels_of_all(
        self,
        workloads: Sequence[Workload],
        chosen: Mapping[str, AnyCandidate | None],
        tiers: Sequence[str],
        on_phase: OnPhase = quiet,
    ) -> list[Kernel]:
        """The same of several, with the settings of each by its key.

        Raises
        ------
        CompileError
            When one does not compile.
        """
        kernels: list[Kernel] = []
        for place, workload in enumerate(workloads, 1):
            on_phase(f"compiling kernel {place} of {len(workloads)}")
            kernels += self.kernels(workload, chosen[workload.key], tiers)
        return kernels

    def dump(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tier: str,
        dump_after: str,
        passes: Collection[str] | None = None,
    ) -> str:
        """Text of the kernel after a named pass.

        Raises
        ------
        CompileError
            When the candidate does not compile or there is no such pass.
        """
        return self._made(workload, candidate, (tier,), passes, dump_after).dumps[0]

    def _made(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tiers: Sequence[str],
        passes: Collection[str] | None,
        dump_after: str | None = None,
    ) -> Compiled:
        chosen = None if passes is None else tuple(sorted(passes))
        settings = settings_of(candidate)
        return self.process.compile_kernel(
            workload.key, settings, tiers, chosen, self.passes_off, dump_after
        )

    def texts(self, workload: Workload, candidate: AnyCandidate | None, tier: str) -> KernelTexts:
        """The kernel after each named pass.

        Raises
        ------
        CompileError
            When the candidate does not compile, is too slow or kills the process.
        """
        settings = settings_of(candidate)
        found = self.process.kernel_texts(workload.key, settings, tier, self.passes_off)
        kernel = found.code.kernel(workload.key, candidate)
        return KernelTexts(found.program, found.buffers, found.moved_bytes, found.passes, kernel)

    def fixture(self, workload: Workload) -> Fixture:
        """As of :meth:`CompileProcess.fixture`."""
        return self.process.fixture(workload)

    def drop_reference(self, workload: str) -> None:
        """End the fixture of this key, if it is being made: its caller gets a ``CompileError``."""
        self.process.kill_reference(workload)
