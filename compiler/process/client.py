"""The compile process for the rooms that use it: a method for each of its operations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.compiler.process import operations as op
from nnjit_studio.compiler.process.child import Child
from nnjit_studio.compiler.process.results import AnySizeModel, DeviceKernels, ImportedModel
from nnjit_studio.errors import BugError, CompileError
from nnjit_studio.model import Generation, GenerationRequest, ImportOptions, Workload
from nnjit_studio.model.native_run import NativeRun
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.recipe import Derived, LayerError, Recipe
from nnjit_studio.model.survey import Obstacle, Survey
from nnjit_studio.records import Fixture, Kernel
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import parse_candidate

MEMORY_BYTES = 16 * 2**30
DEFAULT = ImportOptions()
KEPT_FIXTURE_BYTES = 64 * 2**20
"""A larger fixture is computed anew each time."""


class CompileProcess:
    """Imports models and makes kernels, for any number of users. Thread-safe, one job at a time.

    A job that is late or dies costs that job alone: the process is started
    anew and gets the model's programs back. Methods on a stranger's model raise
    ``ModelError`` or ``UserError``, also when the job is too slow, too large, or
    kills its process; methods on kernels raise ``CompileError``.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._child = Child(memory_bytes)
        self.call = self._child.call
        self._fixture: Fixture | None = None

    def start(self) -> None:
        """Start the process, and have it load the importer, ahead of its first import; harmless
        when it runs.
        """
        self._child.start()

    def close(self) -> None:
        self._child.close()

    def kill(self) -> None:
        """End whatever runs; a waiting caller gets a failed result. For any thread."""
        self._child.kill()

    def confinement(self) -> tuple[str, ...]:
        """What the system keeps the process from: of ``"files"`` and ``"network"``."""
        return self.call(op.ConfinementRequest())

    # Models

    def import_model(
        self,
        path: Path,
        weights: Path,
        on_phase: Callable[[str], None] = lambda phase: None,
        importing: ImportOptions = DEFAULT,
    ) -> ImportedModel:
        """Import an ONNX file; see :func:`nnjit_studio.compiler.importer.import_model`."""
        return self.call(op.ImportRequest(path, weights, importing), on_phase).model

    def survey(self, path: Path) -> Survey:
        """Read a file without importing it; see :mod:`nnjit_studio.compiler.onnx_file.survey`."""
        return self.call(op.SurveyRequest(path))

    def obstacles(self, path: Path) -> tuple[Obstacle, ...]:
        """The operators of a file that no rule is for."""
        return self.call(op.ObstaclesRequest(path))

    def import_sizes(
        self,
        path: Path,
        weights: Path,
        inputs: Sequence[Mapping[str, NDArray[Any]]],
        half_weights: bool = False,
        on_phase: Callable[[str], None] = lambda phase: None,
    ) -> tuple[list[ImportedModel], tuple[str, ...]]:
        """Import a model once for inputs of several sizes, and what a user should know of it.

        See :func:`nnjit_studio.compiler.any_size.imports.import_sizes`.
        """
        request = op.ImportSizesRequest(path, weights, tuple(inputs), half_weights)
        reply = self.call(request, on_phase)
        return list(reply.models), reply.notes

    def import_any_size(
        self,
        path: Path,
        weights: Path,
        inputs: Mapping[str, NDArray[Any]],
        half_weights: bool = False,
        on_phase: Callable[[str], None] = lambda phase: None,
        guessed: bool = False,
        winners: Mapping[str, Candidate] | None = None,
        webgpu: bool = False,
    ) -> AnySizeModel | None:
        """Import a model and compile it for any size; None where all its sizes are fixed.

        Inputs that were ``guessed`` are given up where the model does not run on them;
        ``winners`` are settings that won for workloads at one size each. See
        :func:`nnjit_studio.compiler.any_size.imports.import_any`.
        """
        request = op.ImportAnySizeRequest(
            path, weights, inputs, half_weights, guessed, winners or {}, webgpu
        )
        reply = self.call(request, on_phase)
        if not reply.plan:
            return None
        plan = OpenPlan.from_json(json.loads(reply.plan))
        kernels = tuple(code.kernel(workload, None) for workload, code in reply.code)
        return AnySizeModel(plan, kernels, weights, reply.notes)

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
        reply = self.call(op.ImportGenerationRequest(path, weights, request), on_phase)
        return reply.facts, list(reply.models)

    def graph_text(self, path: Path, dump_after: str, importing: ImportOptions = DEFAULT) -> str:
        """An ONNX file as text after a graph pass; see :mod:`nnjit_studio.compiler.importer`."""
        return self.call(op.GraphTextRequest(path, dump_after, importing))

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
        reply = self.call(op.DefineRequest(spec))
        return reply.workload, reply.packable

    def adopt(self, text: str) -> tuple[Workload, bool]:
        """A workload from the text of its program, as :meth:`define` makes one from its spelling.

        Raises
        ------
        UserError
            When the text is no program.
        """
        reply = self.call(op.AdoptRequest(text))
        return reply.workload, reply.packable

    def program(self, workload: Workload) -> str:
        """The program of a workload as text that :meth:`adopt` takes; no weights are in it."""
        return self.call(op.ProgramRequest(workload.key))

    def define_model(self, spec: str, weights: Path) -> ImportedModel:
        """A model of one kernel, with seeded weights, from a workload's spelling.

        Raises
        ------
        UserError
            When the spelling cannot be read.
        """
        model = self.call(op.DefineRequest(spec, weights)).model
        if model is None:
            raise BugError(f"The compile process made no model of {spec}.")
        return model

    # Native ONNX Runtime, and the file

    def open_reference(self, path: Path) -> list[tuple[str, tuple[str, ...]]]:
        """Open a model in native ONNX Runtime; the name and the outputs of each of its nodes."""
        return self.call(op.ReferenceRequest(path))

    def reference_tensors(
        self, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """Tensors of the open reference for these inputs, any that its nodes write."""
        return self.call(op.ReferenceTensorsRequest(feeds, tuple(names)))

    def native_run(self, path: Path, feeds: Mapping[str, NDArray[Any]]) -> NativeRun:
        """Time a model in native ONNX Runtime, whole and by node."""
        return self.call(op.NativeRunRequest(path, dict(feeds)))

    def derive(
        self,
        path: Path,
        out: Path,
        recipe: Recipe,
        feeds: Mapping[str, NDArray[Any]],
        on_phase: Callable[[str], None] = lambda phase: None,
    ) -> Derived:
        """Make another file of a model; see :mod:`nnjit_studio.compiler.derived`."""
        return self.call(op.DeriveRequest(path, out, recipe, dict(feeds)), on_phase)

    def worst_layer(self, path: Path, other: Path, feeds: Mapping[str, NDArray[Any]]) -> LayerError:
        """The layer of a derived file that errs most, each on what the original feeds it."""
        return self.call(op.WorstLayerRequest(path, other, dict(feeds)))

    def onnx_attributes(self, path: Path) -> dict[str, dict[str, str]]:
        """Attributes of a model's nodes in its file, by name: ``op`` and each attribute as text."""
        return self.call(op.AttributesRequest(path))

    def native_decoder(self, path: Path, prompt: Sequence[int]) -> None:
        """Load a decoder in native ONNX Runtime, which reads a prompt."""
        self.call(op.NativeDecoderRequest(path, tuple(prompt)))

    def native_tokens(self, tokens: Sequence[int]) -> list[tuple[int, float]]:
        """The greedy choices of ONNX Runtime in place of each token, given those before.

        Returns
        -------
        list
            For each token the choice, and by how much its logit is larger than the token's.
        """
        return self.call(op.NativeTokensRequest(tuple(tokens)))

    # Kernels

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
            found = self.call(op.FixtureRequest(workload.key))
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
        return self.call(op.ConventionalRequest((batch, m, k, n), str(candidate)))

    # Experiments

    def device_kernels(
        self, tier: str, accumulators: Sequence[int], copy_bytes: int
    ) -> DeviceKernels:
        """Modules of the device experiments, the spill ladder for these accumulators."""
        return self.call(op.DeviceKernelsRequest(tier, tuple(accumulators), copy_bytes))

    def variants(self, tiers: Sequence[str]) -> tuple[Workload, list[tuple[str, str, Kernel]]]:
        """The common matmul with one primitive changed at a time.

        Returns
        -------
        tuple
            The workload, and primitive, setting and kernel of each variant;
            the first, without a name, is what the others differ from.
        """
        reply = self.call(op.VariantsRequest(tuple(tiers)))
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
        return self.call(op.PeakRequest(tuple(tiers), wide))

    def gpu_limit_kernels(self, copy_bytes: int) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
        """Kernel documents for a GPU's limits: multiply-adds with their FLOPs a run, and a copy
        of ``copy_bytes`` (a multiple of 16) with the bytes that it moves.
        """
        return self.call(op.GpuLimitsRequest(copy_bytes))
