"""Runs a built model's plan with WGSL kernels on wgpu-native, each on copies of its arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from kernel_harness import NUMPY
from wgsl_harness import run_program

from nnjit_studio.compiler.importer import BuiltModel
from nnjit_studio.compiler.wgsl.pipeline import compile_wgsl


def run_by_documents(
    built: BuiltModel, weights: Path, feeds: dict[str, np.ndarray], tier: str
) -> dict[str, np.ndarray]:
    """Outputs by ONNX name."""
    plan = built.plan
    memory = np.full(plan.weights_bytes + plan.arena_bytes, 0xCD, np.uint8)
    memory[: plan.weights_bytes] = np.fromfile(weights, np.uint8)

    def view(buffer: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        b = plan.buffers[buffer]
        start = b.offset + (plan.weights_bytes if b.region == "arena" else 0)
        size = int(np.prod(shape)) * np.dtype(NUMPY[dtype]).itemsize
        return memory[start : start + size].view(NUMPY[dtype]).reshape(shape)

    for port in plan.inputs:
        view(port.buffer, port.spec.dtype, port.spec.shape)[...] = feeds[port.spec.name]
    kernels = {key: compile_wgsl(p, None, tier).data for key, p in built.programs.items()}
    for step in plan.steps:
        if step.op == "return":
            break
        program = built.programs[step.workload]
        arrays = {
            b.name: view(i, b.dtype, b.shape)
            for b, i in zip(program.buffers, step.args, strict=True)
        }
        for name, value in run_program(program, kernels[step.workload], arrays).items():
            arrays[name][...] = value
    return {p.spec.name: view(p.buffer, p.spec.dtype, p.spec.shape).copy() for p in plan.outputs}
