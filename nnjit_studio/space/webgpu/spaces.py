"""Which rules make the lite space of a workload on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.quantised import MATMUL_4BIT, MATMUL_INT8
from nnjit_studio.space.wasm.conv2d import CONV2D, CONV2D_DIMS
from nnjit_studio.space.webgpu import (
    attention as gpu_attention_space,
)
from nnjit_studio.space.webgpu import (
    conv2d as gpu_conv2d_space,
)
from nnjit_studio.space.webgpu import (
    matmul as gpu_space,
)
from nnjit_studio.space.webgpu import (
    matmul_4bit as gpu_4bit_space,
)
from nnjit_studio.space.webgpu.attention import ATTENTION
from nnjit_studio.space.webgpu.conv2d import MOST_TAPS, DepthwiseProblem, conv2d_gpu_problem
from nnjit_studio.space.webgpu.matmul import GpuProblem, gpu_problem
from nnjit_studio.space.webgpu.matmul_int8 import int8_problem

Rule = Callable[[GpuCandidate, Any], tuple[bool, str]]
"""A rule on candidates of the problem that it stands beside."""


@dataclass(frozen=True)
class GpuSpace:
    """A problem and its rules.

    Attributes
    ----------
    family
        Workloads that the predictor learns from together.
    told
        Rules whose answers are a candidate's reason.
    find, varies
        The candidates, best guess first, and the settings in which one leaves its first choice.
    """

    family: str
    problem: GpuProblem
    rules: tuple[Rule, ...]
    told: tuple[Rule, ...]
    find: Callable[[Any], list[GpuCandidate]]
    varies: Callable[[GpuCandidate, Any], tuple[str, ...]]


def gpu_space_of(workload: Workload, gpu: GpuProfile) -> GpuSpace:
    """The space of a workload.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype on a GPU.
    """
    if workload.kind == MATMUL_4BIT:
        four_bit = gpu_4bit_space.four_bit_problem(workload, gpu)
        return GpuSpace(
            "gpu-row-4bit" if four_bit.few_rows else "gpu-4bit",
            four_bit,
            gpu_4bit_space.RULES,
            (gpu_4bit_space.registers, gpu_4bit_space.shared_memory, gpu_4bit_space.threads),
            gpu_4bit_space.four_bit_candidates,
            lambda c, p: (),
        )
    if workload.kind == MATMUL_INT8:
        return _tiles("gpu-int8", int8_problem(workload, gpu))
    if workload.kind == ATTENTION:
        attention = gpu_attention_space.attention_problem(workload, gpu)
        return GpuSpace(
            "gpu-row-attention" if attention.few_rows else "gpu-attention",
            attention,
            gpu_attention_space.RULES,
            gpu_attention_space.TOLD_RULES,
            gpu_attention_space.attention_candidates,
            lambda c, p: (),
        )
    if workload.kind != CONV2D:
        problem = gpu_problem(workload, gpu)
        return _tiles("gpu-row" if problem.few_rows else "gpu", problem)
    if len(workload.dims) != len(CONV2D_DIMS.split("x")) or workload.dtype != "f32":
        raise UserError(
            f"There is no lite space for the workload {workload.name} on a GPU.",
            f"A convolution is written {CONV2D}:{CONV2D_DIMS}:f32.",
        )
    problem = conv2d_gpu_problem(workload.dims, gpu)
    if not isinstance(problem, DepthwiseProblem):
        return _tiles("gpu-conv2d", problem)
    if problem.k > MOST_TAPS:
        raise UserError(
            f"There is no lite space for the workload {workload.name} on a GPU.",
            f"Depthwise convolutions have at most {MOST_TAPS} taps there.",
        )
    return GpuSpace(
        "gpu-depthwise",
        problem,
        gpu_conv2d_space.DEPTHWISE_RULES,
        gpu_conv2d_space.DEPTHWISE_TOLD,
        gpu_conv2d_space.depthwise_candidates,
        lambda c, p: (),
    )


def _tiles(family: str, problem: GpuProblem) -> GpuSpace:
    return GpuSpace(
        family,
        problem,
        gpu_space.RULES,
        gpu_space.TOLD_RULES,
        gpu_space.gpu_candidates,
        gpu_space.gpu_variations,
    )
