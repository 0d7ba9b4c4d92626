"""Jobs that make kernels for measuring a device."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.microbench import kernels
from nnjit_studio.compiler.microbench.variants import common_matmul, variants
from nnjit_studio.compiler.process.handlers.kernels import code_of
from nnjit_studio.compiler.process.handlers.registry import State
from nnjit_studio.compiler.process.operations import Variant
from nnjit_studio.compiler.process.results import DeviceKernels
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.compiler.wasm.peak import peak_kernel
from nnjit_studio.compiler.wgsl.core.peak import copy_document, peak_document
from nnjit_studio.model import Workload


def device_kernels(
    state: State, tier: str, accumulators: Sequence[int], copy_bytes: int
) -> DeviceKernels:
    return DeviceKernels(
        tuple(kernels.spill_kernel(count, tier) for count in accumulators),
        kernels.chase_kernel(),
        kernels.read_kernel(),
        kernels.copy_kernel(copy_bytes),
        kernels.SPILL_OPERANDS,
        kernels.BLOCK_BYTES,
    )


def matmul_variants(state: State, tiers: Sequence[str]) -> tuple[Workload, list[Variant]]:
    program = common_matmul()
    workload = workload_for(program, subject_of(program))
    state.keep({workload.key: program})
    return workload, [
        Variant(v.primitive, v.setting, str(v.candidate), code_of(v.tier, v.artifact))
        for v in variants(program, tiers)
    ]


def peak_kernels(state: State, tiers: Sequence[str], wide: bool) -> list[tuple[str, bytes, int]]:
    return [(tier, *peak_kernel(tier, wide)) for tier in tiers]


def gpu_limit_kernels(state: State, copy_bytes: int) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    (peak, flops), (copy, moved) = peak_document(), copy_document(copy_bytes)
    return (peak.to_bytes(), flops), (copy.to_bytes(), moved)
