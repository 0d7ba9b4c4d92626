"""Jobs that make kernels for measuring a device."""

from __future__ import annotations

from nnjit_studio.compiler.microbench import kernels
from nnjit_studio.compiler.microbench.variants import common_matmul
from nnjit_studio.compiler.microbench.variants import variants as variants_of
from nnjit_studio.compiler.process.handlers.kernels import code_of
from nnjit_studio.compiler.process.handlers.registry import State, handles
from nnjit_studio.compiler.process.operations import (
    DeviceKernelsRequest,
    GpuLimitsRequest,
    PeakRequest,
    Variant,
    Variants,
    VariantsRequest,
)
from nnjit_studio.compiler.process.results import DeviceKernels
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.compiler.wasm.peak import peak_kernel
from nnjit_studio.compiler.wgsl.core.peak import copy_document, peak_document


@handles(DeviceKernelsRequest)
def device_kernels(state: State, request: DeviceKernelsRequest) -> DeviceKernels:
    return DeviceKernels(
        tuple(kernels.spill_kernel(count, request.tier) for count in request.accumulators),
        kernels.chase_kernel(),
        kernels.read_kernel(),
        kernels.copy_kernel(request.copy_bytes),
        kernels.SPILL_OPERANDS,
        kernels.BLOCK_BYTES,
    )


@handles(VariantsRequest)
def variants(state: State, request: VariantsRequest) -> Variants:
    program = common_matmul()
    workload = workload_for(program, subject_of(program))
    made = tuple(
        Variant(v.primitive, v.setting, str(v.candidate), code_of(v.tier, v.artifact))
        for v in variants_of(program, request.tiers)
    )
    return Variants(state.keep({workload.key: program}), workload, made)


@handles(PeakRequest)
def peak(state: State, request: PeakRequest) -> list[tuple[str, bytes, int]]:
    return [(tier, *peak_kernel(tier, request.wide)) for tier in request.tiers]


@handles(GpuLimitsRequest)
def gpu_limits(
    state: State, request: GpuLimitsRequest
) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    (peak, flops), (copy, moved) = peak_document(), copy_document(request.copy_bytes)
    return (peak.to_bytes(), flops), (copy.to_bytes(), moved)
