"""Runs a built model's plan with compiled kernels in wasmtime, each between red zones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from kernel_harness import NUMPY, run_kernel

from nnjit_studio.compiler.importer import BuiltModel
from nnjit_studio.compiler.in_place import in_place
from nnjit_studio.compiler.pipeline import compile_program


def run_by_kernels(
    built: BuiltModel, weights: Path, feeds: dict[str, np.ndarray], tier: str
) -> dict[str, np.ndarray]:
    """Outputs by ONNX name; one flat memory as in the page, every kernel on a copy of its part."""
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
    kernels = {key: compile_program(p, None, tier) for key, p in built.programs.items()}
    for step in plan.steps:
        if step.op == "return":
            break
        program, kernel = built.programs[step.workload], kernels[step.workload]
        arrays = {
            b.name: view(i, b.dtype, b.shape)
            for b, i in zip(program.buffers, step.args, strict=True)
        }
        extent = kernel.parallel_extent
        results = run_kernel(
            program, kernel.data, extent, arrays, kernel.panels, min(2, extent), in_place(program)
        )
        for name, value in results.items():
            arrays[name][...] = value
    return {p.spec.name: view(p.buffer, p.spec.dtype, p.spec.shape).copy() for p in plan.outputs}
