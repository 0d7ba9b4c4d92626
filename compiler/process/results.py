"""Results of the compile process that other rooms keep: models and modules of experiments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.model import Graph, Plan, Workload


@dataclass(frozen=True)
class ImportedModel:
    """A model that was imported; ``weights`` is a file of the plan's layout.

    ``gpu`` is the same model as a GPU runs it, where steps are fused that Wasm runs apart.
    """

    graph: Graph
    workloads: tuple[Workload, ...]
    plan: Plan
    packable: frozenset[str]
    weights: Path
    gpu: ImportedModel | None = None


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
