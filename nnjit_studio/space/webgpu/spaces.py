"""The lite spaces of a GPU: one function for each kind of problem."""

from __future__ import annotations

from typing import Any

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.rules import Space, Usage
from nnjit_studio.space.wasm.conv2d import CONV2D, CONV2D_DIMS
from nnjit_studio.space.webgpu import attention, conv2d, matmul, matmul_blocks
from nnjit_studio.space.webgpu.matmul_int8 import int8_problem
from nnjit_studio.space.webgpu.problem import GpuProblem
from nnjit_studio.space.webgpu.wide import wide_candidates

GpuSpace = Space[GpuCandidate, Any]


def matmul_space(workload: Workload, gpu: GpuProfile) -> GpuSpace:
    return _tiles(matmul.gpu_problem(workload, gpu))


def int8_space(workload: Workload, gpu: GpuProfile) -> GpuSpace:
    return _tiles(int8_problem(workload, gpu))


def block_space(workload: Workload, gpu: GpuProfile) -> GpuSpace:
    problem = matmul_blocks.block_problem(workload, gpu)
    if isinstance(problem, matmul.MatmulProblem):
        return _tiles(problem)
    find = matmul_blocks.few_row_candidates
    return Space(problem, matmul_blocks.RULES, matmul_blocks.TOLD_RULES, find, _usage)


def attention_space(workload: Workload, gpu: GpuProfile) -> GpuSpace:
    problem = attention.attention_problem(workload, gpu)
    find = attention.attention_candidates
    return Space(problem, attention.RULES, attention.TOLD_RULES, find, _usage)


def conv2d_space(workload: Workload, gpu: GpuProfile) -> GpuSpace:
    """Tiles, or of a depthwise convolution rows of one channel.

    Raises
    ------
    UserError
        When the workload is no float32 conv2d, or a depthwise one with too many taps.
    """
    none = f"There is no lite space for the workload {workload.name} on a GPU."
    if len(workload.dims) != len(CONV2D_DIMS.split("x")) or workload.dtype != "f32":
        raise UserError(none, f"A convolution is written {CONV2D}:{CONV2D_DIMS}:f32.")
    problem = conv2d.conv2d_gpu_problem(workload.dims, gpu)
    if isinstance(problem, conv2d.Conv2dProblem):
        return _tiles(problem)
    if problem.k > conv2d.MOST_TAPS:
        most = f"Depthwise convolutions have at most {conv2d.MOST_TAPS} taps there."
        raise UserError(none, most)
    rules, told = conv2d.DEPTHWISE_RULES, conv2d.DEPTHWISE_TOLD
    return Space(problem, rules, told, conv2d.depthwise_candidates, _usage)


def _tiles(problem: matmul.MatmulProblem) -> GpuSpace:
    find, varies = matmul.gpu_candidates, matmul.gpu_variations
    return Space(problem, matmul.RULES, matmul.TOLD_RULES, find, _usage, varies, wide_candidates)


def _usage(c: GpuCandidate, problem: GpuProblem) -> Usage:
    return Usage(problem.registers(c), problem.shared_bytes(c), problem.blocks_per_core(c))
