"""The calls that the Studio makes of its compile process: one request each, one row each
(:mod:`.table`).

Both ends read this: the parent sends a request and gets what its class names as the reply, the
process has a function for it (:mod:`.handlers`). Programs travel to the parent as opaque bytes,
so that a new process can go on where a killed one stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from numpy.typing import NDArray

from nnjit_studio.compiler.process.results import DeviceKernels, ImportedModel, PassText
from nnjit_studio.model import Generation, GenerationRequest, ImportOptions, Workload
from nnjit_studio.model.native_run import NativeRun
from nnjit_studio.model.recipe import Derived, LayerError, Recipe
from nnjit_studio.model.survey import Obstacle, Survey
from nnjit_studio.records import Fixture, Kernel
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate

Reply = TypeVar("Reply")


class Request(Generic[Reply]):
    """A call of the parent; its parameter is the type of the reply."""


@dataclass(frozen=True)
class Failure:
    """Comes in place of a reply: an error, by the name of its class."""

    error: str
    hint: str
    name: str


@dataclass(frozen=True)
class WithPrograms:
    """A reply with programs by workload key, which the parent keeps without reading them."""

    programs: Mapping[str, bytes]


@dataclass(frozen=True)
class Code:
    """A kernel without its workload and candidate, which the parent knows."""

    tier: str
    data: bytes
    sha256: str
    panels: tuple[tuple[int, int], ...]
    parallel_extent: int

    def kernel(self, workload: str, candidate: AnyCandidate | None) -> Kernel:
        return Kernel(
            workload, candidate, self.tier, self.data, self.sha256, self.panels,
            self.parallel_extent,
        )  # fmt: skip


# Models


@dataclass(frozen=True)
class Imported(WithPrograms):
    model: ImportedModel


@dataclass(frozen=True)
class ImportRequest(Request[Imported]):
    path: Path
    weights: Path
    importing: ImportOptions


@dataclass(frozen=True)
class SurveyRequest(Request[Survey]):
    path: Path


@dataclass(frozen=True)
class ObstaclesRequest(Request[tuple[Obstacle, ...]]):
    path: Path


@dataclass(frozen=True)
class ImportedGeneration(WithPrograms):
    """``models``: the decode plan, then the prefill and the extend plan where there is one."""

    facts: Generation
    models: tuple[ImportedModel, ...]


@dataclass(frozen=True)
class ImportGenerationRequest(Request[ImportedGeneration]):
    path: Path
    weights: Path
    wanted: GenerationRequest


@dataclass(frozen=True)
class ImportedSizes(WithPrograms):
    """``models``: one for each of the inputs; ``notes``: sentences for the user."""

    models: tuple[ImportedModel, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ImportSizesRequest(Request[ImportedSizes]):
    """``inputs``: arrays by name, one set for each size."""

    path: Path
    weights: Path
    inputs: tuple[Mapping[str, NDArray[Any]], ...]
    half_weights: bool


@dataclass(frozen=True)
class ImportedAnySize:
    """``plan`` is the JSON of an open plan, empty where all sizes are fixed; ``code`` is by
    workload and ``notes`` are sentences for the user."""

    plan: str
    code: tuple[tuple[str, Code], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportAnySizeRequest(Request[ImportedAnySize]):
    """``inputs``: arrays by name; where they are ``guessed`` and do not run, some are made up.

    ``winners`` are what tuning found for workloads at one size each, by their keys. With ``webgpu``
    there are kernels of that tier too.
    """

    path: Path
    weights: Path
    inputs: Mapping[str, NDArray[Any]]
    half_weights: bool
    guessed: bool
    winners: Mapping[str, Candidate]
    webgpu: bool = False


@dataclass(frozen=True)
class GraphTextRequest(Request[str]):
    path: Path
    dump_after: str
    importing: ImportOptions


@dataclass(frozen=True)
class Defined(WithPrograms):
    """``model`` is None where no file for its weights was given."""

    workload: Workload
    packable: bool
    model: ImportedModel | None


@dataclass(frozen=True)
class DefineRequest(Request[Defined]):
    spec: str
    weights: Path | None = None


@dataclass(frozen=True)
class ProgramRequest(Request[str]):
    """The program of a workload as JSON text (:mod:`nnjit_studio.compiler.ir.program_data`)."""

    workload: str


@dataclass(frozen=True)
class AdoptRequest(Request[Defined]):
    """A program from its JSON text."""

    text: str


@dataclass(frozen=True)
class RestoreRequest(Request[None]):
    """Programs of a process that is gone."""

    programs: Mapping[str, bytes]


# Native ONNX Runtime, and the file

Nodes: TypeAlias = list[tuple[str, tuple[str, ...]]]
"""Name and outputs."""
Tensors: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ReferenceRequest(Request[Nodes]):
    path: Path


@dataclass(frozen=True)
class ReferenceTensorsRequest(Request[Tensors]):
    feeds: Mapping[str, NDArray[Any]]
    names: tuple[str, ...]


@dataclass(frozen=True)
class NativeDecoderRequest(Request[None]):
    path: Path
    prompt: tuple[int, ...]


@dataclass(frozen=True)
class NativeTokensRequest(Request[list[tuple[int, float]]]):
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class NativeRunRequest(Request[NativeRun]):
    path: Path
    feeds: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class AttributesRequest(Request[dict[str, dict[str, str]]]):
    path: Path


@dataclass(frozen=True)
class DeriveRequest(Request[Derived]):
    """``path``: the file that another one is made of, at ``out``."""

    path: Path
    out: Path
    recipe: Recipe
    feeds: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class WorstLayerRequest(Request[LayerError]):
    """``other``: a file that was derived from that at ``path``."""

    path: Path
    other: Path
    feeds: Mapping[str, NDArray[Any]]


# Kernels


@dataclass(frozen=True)
class Compiled:
    """One of ``codes`` and ``dumps`` for each tier; the times as in ``CompileResult``."""

    codes: tuple[Code, ...]
    ms: float
    pass_ms: dict[str, float]
    dumps: tuple[str, ...]


@dataclass(frozen=True)
class CompileRequest(Request[Compiled]):
    """``passes`` are the optional ones that run; None: all but those of ``passes_off``."""

    workload: str
    settings: str
    tiers: tuple[str, ...]
    passes: tuple[str, ...] | None
    passes_off: tuple[str, ...]
    dump_after: str | None = None


@dataclass(frozen=True)
class Texts:
    """A :class:`~nnjit_studio.compiler.process.results.KernelTexts`, its kernel as code."""

    program: str
    buffers: tuple[str, ...]
    moved_bytes: int
    passes: tuple[PassText, ...]
    code: Code


@dataclass(frozen=True)
class TextsRequest(Request[Texts]):
    workload: str
    settings: str
    tier: str
    passes_off: tuple[str, ...]


@dataclass(frozen=True)
class FixtureRequest(Request[Fixture]):
    workload: str


@dataclass(frozen=True)
class ConventionalRequest(Request[dict[str, float]]):
    """``sizes``: batch, M, K, N. The reply is milliseconds by step."""

    sizes: tuple[int, int, int, int]
    settings: str


# Experiments


@dataclass(frozen=True)
class DeviceKernelsRequest(Request[DeviceKernels]):
    tier: str
    accumulators: tuple[int, ...]
    copy_bytes: int


@dataclass(frozen=True)
class Variant:
    primitive: str
    setting: str
    settings: str
    code: Code


@dataclass(frozen=True)
class Variants(WithPrograms):
    workload: Workload
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class VariantsRequest(Request[Variants]):
    tiers: tuple[str, ...]


@dataclass(frozen=True)
class PeakRequest(Request[list[tuple[str, bytes, int]]]):
    """The reply: tier, module and FLOPs of one iteration."""

    tiers: tuple[str, ...]
    wide: bool


@dataclass(frozen=True)
class GpuLimitsRequest(Request[tuple[tuple[bytes, int], tuple[bytes, int]]]):
    """The reply: a document with its FLOPs a run, and one with the bytes that a run moves."""

    copy_bytes: int


@dataclass(frozen=True)
class ConfinementRequest(Request[tuple[str, ...]]):
    """What the system keeps the compile process from (:mod:`.sandbox`)."""
