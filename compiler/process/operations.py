"""The calls that the Studio makes of its compile process: a method each.

Both ends read this: the parent sends a call's arguments and gets what the method returns, the
process has a function of the same name for it (:mod:`.handlers`). What travels is data of these
types and nothing else (:mod:`.codec`).
"""

# Methods have no bodies: :func:`.table.operation` calls the process in their place.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.compiler.process.results import (
    DeviceKernels,
    ImportedModel,
    ImportedSizes,
    PassText,
)
from nnjit_studio.compiler.process.table import LONG, operation
from nnjit_studio.errors import CompileError
from nnjit_studio.model import Generation, GenerationRequest, ImportOptions, Workload
from nnjit_studio.model.native_run import NativeRun
from nnjit_studio.model.recipe import Derived, LayerError, Recipe
from nnjit_studio.model.survey import Obstacle, Survey
from nnjit_studio.records import Fixture, Kernel
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.records.size_tuning import KnownSettings
from nnjit_studio.support.phases import OnPhase, quiet

_IMPORT = "The import of {path.name!r}"
_OPENING = "Opening {path.name!r} in native ONNX Runtime"
_READING = "Reading {path.name!r}"
_DERIVING = "Making another file of {path.name!r}"
_RUN = "The run in native ONNX Runtime"
_DEFAULT = ImportOptions()


@dataclass(frozen=True)
class Failure:
    """Comes in place of a reply: an error, by the name of its class."""

    error: str
    hint: str
    name: str


@dataclass(frozen=True)
class Code:
    """A kernel without its workload and candidate, which the parent knows."""

    tier: str
    data: bytes
    sha256: str
    panels: tuple[tuple[int, int], ...]
    parallel_extent: int

    @staticmethod
    def of(kernel: Kernel) -> Code:
        return Code(
            kernel.tier, kernel.data, kernel.sha256, kernel.panels, kernel.parallel_extent
        )  # fmt: skip

    def kernel(self, workload: str, candidate: AnyCandidate | None) -> Kernel:
        return Kernel(
            workload, candidate, self.tier, self.data, self.sha256, self.panels,
            self.parallel_extent,
        )  # fmt: skip


@dataclass(frozen=True)
class CompiledAnySize:
    """``plan`` is the JSON of an open plan; ``code`` is by workload and ``notes`` are sentences for
    the user."""

    plan: str
    code: tuple[tuple[str, Code], ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Compiled:
    """One of ``codes`` and ``dumps`` for each tier; the times as in ``CompileResult``."""

    codes: tuple[Code, ...]
    ms: float
    pass_ms: dict[str, float]
    dumps: tuple[str, ...]


@dataclass(frozen=True)
class Texts:
    """A :class:`~nnjit_studio.compiler.process.results.KernelTexts`, its kernel as code."""

    program: str
    buffers: tuple[str, ...]
    moved_bytes: int
    passes: tuple[PassText, ...]
    code: Code


@dataclass(frozen=True)
class Variant:
    primitive: str
    setting: str
    settings: str
    code: Code


class Operations:
    """What the compile process can do."""

    call: Callable[[str, tuple[Any, ...], OnPhase], Any]
    """Has the operation of this name done on these arguments."""

    @operation("confinement")
    def confinement(self) -> tuple[str, ...]:
        """What the system keeps the process from: of ``"files"`` and ``"network"``."""

    # Models

    @operation("models", LONG, lost=_IMPORT, loads=True, imports=1)
    def import_model(
        self,
        path: Path,
        weights: Path,
        on_phase: OnPhase = quiet,
        importing: ImportOptions = _DEFAULT,
    ) -> ImportedModel:
        """Import an ONNX file; see :func:`nnjit_studio.compiler.importer.import_model`."""

    @operation("reading", LONG, lost=_READING)
    def survey(self, path: Path) -> Survey:
        """Read a file without importing it; see :mod:`nnjit_studio.compiler.onnx_file.survey`."""

    @operation("models", LONG, lost=_READING, loads=True)
    def obstacles(self, path: Path) -> tuple[Obstacle, ...]:
        """The operators of a file that no rule is for."""

    @operation("models", LONG, lost=_IMPORT, loads=True, imports=3)
    def import_sizes(
        self,
        path: Path,
        weights: Path,
        inputs: Sequence[Mapping[str, NDArray[Any]]],
        half_weights: bool = False,
        on_phase: OnPhase = quiet,
    ) -> ImportedSizes:
        """Import a model once for inputs of several sizes.

        See :func:`nnjit_studio.compiler.any_size.imports.import_sizes`.
        """

    @operation("models", LONG, lost=_IMPORT, loads=True, imports=3)
    def compile_any_size(
        self,
        path: Path,
        weights: Path,
        inputs: Mapping[str, NDArray[Any]],
        half_weights: bool,
        on_phase: OnPhase,
        guessed: bool,
        known: KnownSettings,
        webgpu: bool,
    ) -> CompiledAnySize | None:
        """As :meth:`.client.CompileProcess.import_any_size`, as data."""

    @operation("models", LONG, lost=_IMPORT, loads=True, imports=1)
    def import_generation(
        self, path: Path, weights: Path, request: GenerationRequest, on_phase: OnPhase = quiet
    ) -> tuple[Generation, list[ImportedModel]]:
        """Import a decoder: its decode plan, then its prefill and its extend plan if it has them.

        See :func:`nnjit_studio.compiler.importer.generation.import_generation`.
        """

    @operation("models", LONG, lost=_IMPORT, loads=True, imports=1)
    def graph_text(self, path: Path, dump_after: str, importing: ImportOptions = _DEFAULT) -> str:
        """An ONNX file as text after a graph pass; see :mod:`nnjit_studio.compiler.importer`."""

    @operation("kernels", LONG, loads=True)
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

    @operation("kernels", LONG, loads=True)
    def define_model(self, spec: str, weights: Path) -> ImportedModel:
        """A model of one kernel, with seeded weights, from a workload's spelling.

        Raises
        ------
        UserError
            When the spelling cannot be read.
        """

    @operation("kernels", loads=True)
    def adopt(self, text: str) -> tuple[Workload, bool]:
        """A workload from the text of its program, as :meth:`define` makes one from its spelling.

        Raises
        ------
        UserError
            When the text is no program.
        """

    @operation("kernels")
    def program(self, workload: Workload) -> str:
        """The program of a workload as text that :meth:`adopt` takes; no weights are in it.

        It is JSON (:mod:`nnjit_studio.compiler.ir.program_data`).
        """

    @operation("kernels", LONG, loads=True)
    def restore(self, programs: Mapping[str, bytes]) -> None:
        """Take the programs of a process that is gone, by workload key.

        They travel as opaque bytes, so that a new process can go on where a killed one stopped.
        """

    # Native ONNX Runtime, and the file

    @operation("native", LONG, lost=_OPENING)
    def open_reference(self, path: Path) -> list[tuple[str, tuple[str, ...]]]:
        """Open a model in native ONNX Runtime; the name and the outputs of each of its nodes."""

    @operation("native", LONG, lost=_RUN)
    def reference_tensors(
        self, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
    ) -> dict[str, NDArray[Any]]:
        """Tensors of the open reference for these inputs, any that its nodes write."""

    @operation("native", LONG, lost=_RUN)
    def native_run(self, path: Path, feeds: Mapping[str, NDArray[Any]]) -> NativeRun:
        """Time a model in native ONNX Runtime, whole and by node."""

    @operation("native", LONG, lost=_OPENING)
    def native_decoder(self, path: Path, prompt: Sequence[int], half_cache: bool = False) -> None:
        """Load a decoder in native ONNX Runtime, which reads a prompt.

        With ``half_cache`` its past is rounded to f16 after each run.
        """

    @operation("native", LONG, lost=_RUN)
    def native_tokens(self, tokens: Sequence[int]) -> list[tuple[int, float]]:
        """The greedy choices of ONNX Runtime in place of each token, given those before.

        Returns
        -------
        list
            For each token the choice, and by how much its logit is larger than the token's.
        """

    @operation("native", LONG, lost=_READING, imports=1)
    def onnx_attributes(self, path: Path) -> dict[str, dict[str, str]]:
        """Attributes of a model's nodes in its file, by name: ``op`` and each attribute as text."""

    @operation("derived", LONG, lost=_DERIVING, loads=True, imports=1)
    def derive(
        self,
        path: Path,
        out: Path,
        recipe: Recipe,
        feeds: Mapping[str, NDArray[Any]],
        on_phase: OnPhase = quiet,
    ) -> Derived:
        """Make another file of a model; see :mod:`nnjit_studio.compiler.derived`."""

    @operation("derived", LONG, lost=_RUN)
    def worst_layer(self, path: Path, other: Path, feeds: Mapping[str, NDArray[Any]]) -> LayerError:
        """The layer of a derived file that errs most, each on what the original feeds it."""

    # Kernels

    @operation("kernels", raises=CompileError)
    def compile_kernel(
        self,
        workload: str,
        settings: str,
        tiers: Sequence[str],
        passes: Sequence[str] | None,
        passes_off: Sequence[str],
        dump_after: str | None = None,
    ) -> Compiled:
        """A kernel for each tier.

        ``passes`` are the optional ones that run; None: all but those of ``passes_off``.
        """

    @operation("kernels", raises=CompileError)
    def settings_at(self, workloads: Sequence[str], settings: str) -> tuple[str, ...]:
        """What a kernel for any size makes of settings at each of its sizes.

        Parameters
        ----------
        workloads
            Keys of one kernel's, ascending.
        settings
            ``default`` for its first guess.
        """

    @operation("kernels", raises=CompileError)
    def kernel_texts(
        self, workload: str, settings: str, tier: str, passes_off: Sequence[str]
    ) -> Texts:
        """A kernel after each named pass."""

    @operation("kernels", LONG, raises=CompileError)
    def seeded_fixture(self, workload: str) -> Fixture:
        """Seeded inputs and the float64 reference of a workload."""

    @operation("kernels", LONG, raises=CompileError, loads=True)
    def conventional_ms(self, workload: Workload, candidate: Candidate) -> dict[str, float]:
        """Milliseconds of TVM, LLVM and the installed linkers, for the same matmul and tile.

        Raises
        ------
        CompileError
            When one of them fails.
        """

    # Experiments

    @operation("experiments", raises=CompileError)
    def device_kernels(
        self, tier: str, accumulators: Sequence[int], copy_bytes: int
    ) -> DeviceKernels:
        """Modules of the device experiments, the spill ladder for these accumulators."""

    @operation("experiments", raises=CompileError, loads=True)
    def matmul_variants(self, tiers: Sequence[str]) -> tuple[Workload, list[Variant]]:
        """As :meth:`.client.CompileProcess.variants`, as data."""

    @operation("experiments", raises=CompileError)
    def peak_kernels(
        self, tiers: Sequence[str], wide: bool = False
    ) -> list[tuple[str, bytes, int]]:
        """Modules that measure the peak multiply-add rate: tier, bytes, FLOPs an iteration.

        ``wide`` is for an engine that packs pairs of vectors.
        """

    @operation("experiments", raises=CompileError)
    def gpu_limit_kernels(self, copy_bytes: int) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
        """Kernel documents for a GPU's limits: multiply-adds with their FLOPs a run, and a copy
        of ``copy_bytes`` (a multiple of 16) with the bytes that it moves.
        """
