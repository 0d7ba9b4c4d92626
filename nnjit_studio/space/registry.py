"""The space half of the template table: one row for each kind of workload.

``nnjit_studio/compiler/templates.py`` joins it with the compiler's half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.quantised import BLOCK_KINDS, DEPTHWISE_INT8, MATMUL_INT8
from nnjit_studio.space.features import Features
from nnjit_studio.space.rules import Space
from nnjit_studio.space.wasm import attention, conv2d, depthwise_bytes, dot, matmul
from nnjit_studio.space.webgpu import spaces as webgpu


@dataclass(frozen=True)
class SpaceRow:
    """The spaces of some kinds of workloads."""

    kinds: tuple[str, ...]
    wasm: Callable[[Workload, DeviceProfile, bool], Space[Candidate, Any]] | None = None
    """The space on a device, which is told whether B may be packed; raises :class:`UserError` for
    a workload that it has no space for."""
    webgpu: Callable[[Workload, GpuProfile], Space[GpuCandidate, Any]] | None = None
    """The same on a GPU."""
    naive_size: Callable[[Workload], int] = matmul.matmul_naive_size
    """Size of the Wasm space before any reduction."""
    features: Callable[[Candidate, Workload, DeviceProfile], Features] = matmul.matmul_features
    """Of a Wasm candidate, for the cost model."""
    family: Callable[[Workload], str] = matmul.matmul_family
    """The name of the weights that a workload has in the cost model."""
    blocks_k: bool = True
    """Whether ``r1`` cuts the reduction, the last dimension but one."""


MATMUL = SpaceRow(("matmul", "batch_matmul"), matmul.matmul_space, webgpu.matmul_space)
DOT = SpaceRow(
    tuple(dot.DOT_KINDS.values()),
    dot.dot_space,
    webgpu.matmul_space,
    features=dot.dot_features,
    family=dot.dot_family,
)
INT8 = SpaceRow((MATMUL_INT8,), matmul.matmul_space, webgpu.int8_space)
BLOCKS = SpaceRow(tuple(BLOCK_KINDS.values()), matmul.matmul_space, webgpu.block_space)
CONV2D = SpaceRow(
    (conv2d.CONV2D,),
    conv2d.conv2d_space,
    webgpu.conv2d_space,
    conv2d.conv2d_naive_size,
    conv2d.conv2d_features,
    conv2d.conv2d_family,
    blocks_k=False,
)
DEPTHWISE_BYTES = SpaceRow(
    (DEPTHWISE_INT8,),
    depthwise_bytes.depthwise_bytes_space,
    naive_size=depthwise_bytes.depthwise_bytes_naive_size,
    features=depthwise_bytes.depthwise_bytes_features,
    family=lambda workload: "depthwise",
    blocks_k=False,
)
ATTENTION = SpaceRow(
    (attention.ATTENTION,),
    attention.attention_space,
    webgpu.attention_space,
    attention.attention_naive_size,
    attention.attention_features,
    family=lambda workload: "matmul",
    blocks_k=False,
)

ROWS = (MATMUL, DOT, INT8, BLOCKS, CONV2D, DEPTHWISE_BYTES, ATTENTION)
_BY_KIND = {kind: row for row in ROWS for kind in row.kinds}


def row_of(kind: str) -> SpaceRow:
    """The row of a kind; of one that has none that of products, whose spaces refuse it."""
    return _BY_KIND.get(kind, MATMUL)


def space_of(workload: Workload, device: DeviceProfile, packable: bool) -> Space[Any, Any]:
    """The space of a workload on a device.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype.
    """
    if device.gpu is not None:
        return gpu_space_of(workload, device.gpu)
    wasm = row_of(workload.kind).wasm
    if wasm is None:
        raise _without_space(workload, "in Wasm")
    return wasm(workload, device, packable)


def gpu_space_of(workload: Workload, gpu: GpuProfile) -> Space[GpuCandidate, Any]:
    """The space of a workload on a GPU.

    Raises
    ------
    UserError
        As :func:`space_of`.
    """
    webgpu = row_of(workload.kind).webgpu
    if webgpu is None:
        raise _without_space(workload, "on a GPU")
    return webgpu(workload, gpu)


def _without_space(workload: Workload, where: str) -> UserError:
    return UserError(
        f"There is no lite space for the workload {workload.name} {where}.",
        "Only its default kernel can be run there.",
    )
