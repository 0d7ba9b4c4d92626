"""The compile process for the rooms that use it: a method for each of its operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.compiler.process import operations as op
from nnjit_studio.compiler.process.child import Child
from nnjit_studio.compiler.process.kernel_texts import KernelTexts
from nnjit_studio.compiler.process.results import DeviceKernels, ImportedModel
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.errors import BugError, CompileError
from nnjit_studio.model import Generation, GenerationRequest, GivenShapes, Workload
from nnjit_studio.records import CompileResult, Fixture, Kernel
from nnjit_studio.records.candidate import Candidate, settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate

__all__ = ["CompileProcess", "DeviceKernels", "ImportedModel"]

MEMORY_BYTES = 16 * 2**30
KEPT_FIXTURE_BYTES = 64 * 2**20
"""A larger fixture is computed anew each time."""


class CompileProcess:
    """The ``Compiler`` of the tuner, in a process of its own. Thread-safe, one job at a time.

    A job that is late or dies costs that job alone: the process is started
    anew and gets the model's programs back. Methods on a stranger's model raise
    ``ModelError`` or ``UserError``, also when the job is too slow, too large, or
    kills its process; methods on kernels raise ``CompileError``.
    """

    version = COMPILER_VERSION

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._child = Child(memory_bytes)
        self._call = self._child.call
        self._fixture: Fixture | None = None
        self.passes_off: tuple[str, ...] = ()
        """Optional passes that kernels are made without, unless they ask for passes by name."""
        self.shapes = GivenShapes()
        """For the open dimensions of the models that are imported from now on."""
        self.winograd = True
        """Whether the models that are imported from now on may have convolutions in tiles."""
        self.half_weights = False
        """Whether weights of the models that are imported from now on are rounded to f16."""

    def start(self) -> None:
        """Start the process, and have it load the importer, ahead of its first job; harmless
        when it runs.
        """
        self._child.start()

    def close(self) -> None:
        self._child.close()

    def kill(self) -> None:
        """End whatever runs; a waiting caller gets a failed result. For any thread."""
        self._child.kill()

    # Models

    def import_model(
        self,
        path: Path,
        weights: Path,
        on_phase: Callable[[str], None] = lambda phase: None,
        winograd: bool = True,
    ) -> ImportedModel:
        """Import an ONNX file; see :func:`nnjit_studio.compiler.importer.import_model`.

        ``winograd`` allows convolutions in tiles, where :attr:`winograd` does.
        """
        request = op.ImportRequest(
            path, weights, self.shapes, self.winograd and winograd, self.half_weights
        )
        return self._call(request, on_phase).model

    def import_generation(
        self,
        path: Path,
        weights: Path,
        request: GenerationRequest,
        on_phase: Callable[[str], None] = lambda phase: None,
    ) -> tuple[Generation, list[ImportedModel]]:
        """Import a decoder: its decode plan first, then its prefill plan if it has one.

        See :func:`nnjit_studio.compiler.importer.generation.import_generation`.
        """
        wanted = replace(request, half_weights=self.half_weights)
        reply = self._call(op.ImportGenerationRequest(path, weights, wanted), on_phase)
        return reply.facts, list(reply.models)

    def graph_text(self, path: Path, dump_after: str) -> str:
        """An ONNX file as text after a graph pass; see :mod:`nnjit_studio.compiler.importer`."""
        request = op.GraphTextRequest(
            path, dump_after, self.shapes, self.winograd, self.half_weights
        )
        return self._call(request)

    def define(self, spec: str) -> tuple[Workload, bool]:
        """A workload from its spelling (:mod:`nnjit_studio.compiler.spelling`).

        Returns
        -------
        tuple
            The workload, ready to be compiled, and whether its B is packable.

        Raises
        ------
        UserError
            When the spelling cannot be read.
        """
        reply = self._call(op.DefineRequest(spec))
        return reply.workload, reply.packable

    def define_model(self, spec: str, weights: Path) -> ImportedModel:
        """A model of one kernel, with seeded weights, from a workload's spelling.

        Raises
        ------
        UserError
            When the spelling cannot be read.
        """
        model = self._call(op.DefineRequest(spec, weights)).model
        if model is None:
            raise BugError(f"The compile process made no model of {spec}.")
        return model

    # Native ONNX Runtime, and the file

    def open_reference(self, path: Path) -> list[tuple[str, tuple[str, ...]]]:
        """Open a model in native ONNX Runtime; the name and the outputs of each of its nodes."""
        return self._call(op.ReferenceRequest(path))

    def reference_tensors(
        self, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """Tensors of the open reference for these inputs, any that its nodes write."""
        return self._call(op.ReferenceTensorsRequest(feeds, tuple(names)))

    def onnx_attributes(self, path: Path) -> dict[str, dict[str, str]]:
        """Attributes of a model's nodes in its file, by name: ``op`` and each attribute as text."""
        return self._call(op.AttributesRequest(path))

    def native_decoder(self, path: Path, prompt: Sequence[int]) -> None:
        """Load a decoder in native ONNX Runtime, which reads a prompt."""
        self._call(op.NativeDecoderRequest(path, tuple(prompt)))

    def native_tokens(self, tokens: Sequence[int]) -> list[tuple[int, float]]:
        """The greedy choices of ONNX Runtime in place of each token, given those before.

        Returns
        -------
        list
            For each token the choice, and by how much its logit is larger than the token's.
        """
        return self._call(op.NativeTokensRequest(tuple(tokens)))

    # Kernels

    def compile(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tiers: Sequence[str],
        passes: Collection[str] | None = None,
    ) -> CompileResult:
        """A kernel for each tier. A failure is a result with an error."""
        try:
            reply = self._compile(workload, candidate, tiers, passes)
        except CompileError as e:
            return CompileResult(workload.key, candidate, error=e.error)
        kernels = tuple(code.kernel(workload.key, candidate) for code in reply.codes)
        return CompileResult(workload.key, candidate, kernels, reply.ms, reply.pass_ms)

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
        return self._compile(workload, candidate, (tier,), passes, dump_after).dumps[0]

    def _compile(
        self,
        workload: Workload,
        candidate: AnyCandidate | None,
        tiers: Sequence[str],
        passes: Collection[str] | None,
        dump_after: str | None = None,
    ) -> op.Compiled:
        chosen = None if passes is None else tuple(sorted(passes))
        settings = settings_of(candidate)
        return self._call(
            op.CompileRequest(
                workload.key, settings, tuple(tiers), chosen, self.passes_off, dump_after
            )
        )

    def texts(self, workload: Workload, candidate: AnyCandidate | None, tier: str) -> KernelTexts:
        """The kernel after each named pass.

        Raises
        ------
        CompileError
            When the candidate does not compile, is too slow or kills the process.
        """
        settings = settings_of(candidate)
        found = self._call(op.TextsRequest(workload.key, settings, tier, self.passes_off))
        kernel = found.code.kernel(workload.key, candidate)
        return KernelTexts(found.program, found.buffers, found.moved_bytes, found.passes, kernel)

    def fixture(self, workload: Workload) -> Fixture:
        """Seeded inputs and the float64 reference of a workload; the last one is remembered.

        Raises
        ------
        CompileError
            When the reference cannot be computed.
        """
        kept = self._fixture
        if kept is not None and kept.workload == workload.key:
            return kept
        try:
            found = self._call(op.FixtureRequest(workload.key))
        except CompileError as e:
            raise CompileError(f"No reference for {workload.name}: {e.error}") from None
        nbytes = sum(len(a.data or b"") for a in found.args)
        nbytes += sum(a.nbytes for a in (*found.expected, *found.bound))
        self._fixture = found if nbytes <= KEPT_FIXTURE_BYTES else None
        return found

    def conventional_ms(self, workload: Workload, candidate: Candidate) -> dict[str, float]:
        """Milliseconds of TVM, LLVM and the installed linkers, for the same matmul and tile.

        Raises
        ------
        CompileError
            When one of them fails.
        """
        batch, m, k, n = [1, *workload.dims][-4:]
        return self._call(op.ConventionalRequest((batch, m, k, n), str(candidate)))

    # Experiments

    def device_kernels(
        self, tier: str, accumulators: Sequence[int], copy_bytes: int
    ) -> DeviceKernels:
        """Modules of the device experiments, the spill ladder for these accumulators."""
        return self._call(op.DeviceKernelsRequest(tier, tuple(accumulators), copy_bytes))

    def variants(self, tiers: Sequence[str]) -> tuple[Workload, list[tuple[str, str, Kernel]]]:
        """The common matmul with one primitive changed at a time.

        Returns
        -------
        tuple
            The workload, and primitive, setting and kernel of each variant;
            the first, without a name, is what the others differ from.
        """
        reply = self._call(op.VariantsRequest(tuple(tiers)))
        key = reply.workload.key
        return reply.workload, [
            (v.primitive, v.setting, v.code.kernel(key, parse_candidate(v.settings)))
            for v in reply.variants
        ]

    def peak_kernels(
        self, tiers: Sequence[str], wide: bool = False
    ) -> list[tuple[str, bytes, int]]:
        """Modules that measure the peak multiply-add rate: tier, bytes, FLOPs an iteration.

        ``wide`` is for an engine that packs pairs of vectors.
        """
        return self._call(op.PeakRequest(tuple(tiers), wide))

    def gpu_limit_kernels(self, copy_bytes: int) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
        """Kernel documents for a GPU's limits: multiply-adds with their FLOPs a run, and a copy
        of ``copy_bytes`` (a multiple of 16) with the bytes that it moves.
        """
        return self._call(op.GpuLimitsRequest(copy_bytes))
