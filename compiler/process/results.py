"""Results of the compile process that other rooms keep: models, texts, modules of experiments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.model import Graph, Plan, Workload
from nnjit_studio.model.family import Family
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.plan_choice import PlanChoice
from nnjit_studio.records import Kernel


@dataclass(frozen=True)
class ImportedModel:
    """A model that was imported; ``weights`` is a file of the plan's layout."""

    graph: Graph
    workloads: tuple[Workload, ...]
    plan: Plan
    packable: frozenset[str]
    weights: Path
    choices: tuple[PlanChoice, ...] = ()
    """What the import chose by rules, with the other ways that there are."""


@dataclass(frozen=True)
class ImportedSizes:
    """A model that was imported once for several sizes, over one file of weights."""

    models: tuple[ImportedModel, ...]
    """One for each size."""
    notes: tuple[str, ...]
    """Sentences for the user."""
    families: tuple[Family, ...]
    """Kernels that a bundle for any size has settings for; none where sizes are apart."""


@dataclass(frozen=True)
class AnySizeModel:
    """A model that was compiled for any size; ``notes`` are sentences for the user."""

    plan: OpenPlan
    kernels: tuple[Kernel, ...]
    weights: Path
    notes: tuple[str, ...]


@dataclass(frozen=True)
class DeviceKernels:
    """Modules of the device experiments (:mod:`nnjit_studio.compiler.microbench.kernels`).

    ``spill`` holds each module with the floating-point operations of one
    iteration, ``operands`` the registers of its step besides the accumulators;
    an iteration of ``read`` and ``copy`` reads ``block_bytes``.
    """

    spill: tuple[tuple[bytes, int], ...]
    chase: bytes
    read: bytes
    copy: bytes
    operands: int
    block_bytes: int


@dataclass(frozen=True)
class PassText:
    """A kernel after one pass."""

    name: str
    form: str
    """What the text is: ``loops``, ``wasm``, ``stages``, ``dispatches``, ``wgsl`` or ``bytes``;
    empty before there is any."""
    text: str
    """Where the pass changed nothing, the text after the one before."""
    ms: float
    """Median of as many compilations as there are passes."""


@dataclass(frozen=True)
class KernelTexts:
    """The texts of one kernel."""

    program: str
    """The tensor IR that all candidates start from."""
    buffers: tuple[str, ...]
    """Names of the kernel's arguments, in order."""
    moved_bytes: int
    """Of all inputs and outputs, each counted once."""
    passes: tuple[PassText, ...]
    kernel: Kernel
