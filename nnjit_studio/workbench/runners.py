"""Parts of a page that depend on the backend: runner, device, version of the kernels, tiers."""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.version import COMPILER_VERSION, GPU_COMPILER_VERSION
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.primitives import primitive_vector
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.engine.runner.recovery import GpuGone
from nnjit_studio.records import GPU_TIERS, TIERS, DeviceProfile
from nnjit_studio.records.backend import Backend
from nnjit_studio.records.lab import is_lab
from nnjit_studio.workbench.stored_best import guest_device, known_device

__all__ = [
    "GpuGone",
    "compiler_version",
    "connect_device",
    "make_runner",
    "tiers_of_backend",
]

COPY_BYTES = 1 << 24
"""Of the probe's copy kernel, where it is asked for."""


def make_runner(hub: Hub, engine: str, backend: Backend, flags: str, threads: int) -> PageRunner:
    """The runner of a backend in an engine such as ``embedded``; its target is the backend's."""
    if backend.implementation == "bridge":
        hub.gpu.adapter = "software" if backend.software else "hardware"
    return PageRunner(hub, engine, flags, threads=1 if backend.is_gpu else threads, backend=backend)


def compiler_version(backend: Backend) -> str:
    """Of the compiler whose kernels the backend runs: part of their identity."""
    return GPU_COMPILER_VERSION if backend.is_gpu else COMPILER_VERSION


def tiers_of_backend(backend: Backend) -> tuple[str, ...]:
    """All tiers that a backend's kernels may have."""
    return GPU_TIERS if backend.is_gpu else TIERS


def connect_device(
    runner: PageRunner,
    target: str,
    process: CompileProcess,
    database: KernelDatabase,
    fixed: dict[str, str],
    guest: str = "",
) -> DeviceProfile:
    """Ask the page of a runner what it can do, and measure its peaks.

    ``guest`` is the identity of its device where that is not this machine.

    Raises
    ------
    TargetError
        When the page lacks what the backend needs.
    """
    if runner.backend.is_gpu:
        peak, _ = process.gpu_limit_kernels(COPY_BYTES)
        return runner.probe_gpu(peak)
    probed = runner.probe(process.peak_kernels(TIERS, is_lab(target)))
    probed = replace(probed, primitive_vector=primitive_vector(fixed))
    if guest:
        return guest_device(database, probed, guest)
    return known_device(database, probed)
