"""Runs a built model's plan with compiled kernels in wasmtime, each between red zones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from kernel_harness import NUMPY, run_kernel

from nnjit_studio.compiler.importer import BuiltModel
from nnjit_studio.compiler.ir.in_place import in_place
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import compile_program

Arrays = Mapping[str, np.ndarray]


def run_plan(
    built: BuiltModel, weights: Path, feeds: Arrays, call: Callable[[str, Program, Arrays], Arrays]
) -> dict[str, np.ndarray]:
    """Outputs by ONNX name; one flat memory as in the page.

    ``call`` runs a workload's program on views of its arguments and returns what it wrote.
    """
    plan = built.plan
    memory = np.full(plan.weights_bytes + plan.arena_bytes, 0xCD, np.uint8)
    memory[: plan.weights_bytes] = np.fromfile(weights, np.uint8)

    def view(buffer: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        b = plan.buffers[buffer]
        start = b.offset + (plan.weights_bytes if b.region == "arena" else 0)
        size = int(np.prod(shape)) * np.dtype(NUMPY[dtype]).itemsize
        assert size <= b.nbytes
        return memory[start : start + size].view(NUMPY[dtype]).reshape(shape)

    for port in plan.inputs:
        view(port.buffer, port.spec.dtype, port.spec.shape)[...] = feeds[port.spec.name]
    for step in plan.steps:
        if step.op == "return":
            break
        program = built.programs[step.workload]
        arrays = {
            b.name: view(i, b.dtype, b.shape)
            for b, i in zip(program.buffers, step.args, strict=True)
            if b.role != "virtual"  # no kernel has it in memory
        }
        for name, value in call(step.workload, program, arrays).items():
            arrays[name][...] = value
    outputs = {}
    for port in plan.outputs:
        room = view(port.buffer, port.spec.dtype, port.spec.shape)
        count = int(view(port.found.count, "i64", (1,))[0]) if port.found else 0
        outputs[port.spec.name] = room[tuple(map(slice, port.cut(count).shape))].copy()
    return outputs


def run_by_kernels(
    built: BuiltModel, weights: Path, feeds: Arrays, tier: str
) -> dict[str, np.ndarray]:
    """Every kernel, as it is compiled without a candidate, on a copy of its part."""
    kernels = {key: compile_program(p, None, tier) for key, p in built.programs.items()}
    return run_kernels(built, weights, feeds, kernels)


def run_kernels(
    built: BuiltModel, weights: Path, feeds: Arrays, kernels: Mapping[str, Artifact]
) -> dict[str, np.ndarray]:
    """These kernels, by their workloads."""

    def call(workload: str, program: Program, arrays: Arrays) -> Arrays:
        kernel = kernels[workload]
        extent = kernel.parallel_extent
        return run_kernel(
            program, kernel.data, extent, arrays, kernel.panels, min(2, extent), in_place(program)
        )

    return run_plan(built, weights, feeds, call)
