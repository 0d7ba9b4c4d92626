"""The open model's steps divided between WebGPU and Wasm, where the GPU cannot run them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.model import Workload
from nnjit_studio.model.placement import GPU, CopyCost, Device, place, works
from nnjit_studio.model.segments import divide
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.workbench.open_model import OpenModel

StepTimes = Mapping[str, tuple[float, float]]
"""Ms on the GPU and in Wasm, by the key of a workload."""


def divided(
    opened: OpenModel,
    compiler: Compiler,
    measured: StepTimes | None = None,
    cost: CopyCost | None = None,
) -> OpenModel:
    """The model with its steps divided; undivided where the GPU runs all of them, or none.

    Without times only what has no kernel for the GPU runs in Wasm. Models of several programs,
    with a state or with loops are not divided.
    """
    plan = opened.plan
    tier = GPU_TIERS[:1]
    on_gpu = {w.key for w in opened.workloads if not compiler.compile(w, None, tier).error}
    steps = works(plan, opened.graph.nodes, on_gpu, measured)
    if steps is None or len(opened.programs) > 1:
        return replace(opened, mixed=None)
    nbytes = {i: buffer.nbytes for i, buffer in enumerate(plan.buffers)}
    inputs, outputs = ([p.buffer for p in ports] for ports in (plan.inputs, plan.outputs))
    devices = place(steps, nbytes, inputs, outputs, cost)
    mixed = divide(plan, steps, devices) if len(set(devices)) > 1 else None
    return replace(opened, mixed=mixed)


def needs_division(opened: OpenModel) -> bool:
    """Whether a GPU cannot even load the model as a whole."""
    return opened.mixed is None and any(port.found for port in opened.plan.outputs)


def run_by(opened: OpenModel, device: Device) -> list[Workload]:
    """The workloads of a model that a device runs on a page on WebGPU."""
    if opened.mixed is None:
        return list(opened.workloads) if device == GPU else []
    return [w for w in opened.workloads if w.key in opened.mixed.workloads(device)]
