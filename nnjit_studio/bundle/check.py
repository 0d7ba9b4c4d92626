"""Whether a plan and its kernels fit together: the same rules as the engine's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nnjit_studio.bundle.manifest import BundleKernel
from nnjit_studio.graph import ALIGNMENT_BYTES, DTYPE_BYTES, Plan

MEMORY_BYTES = 2**32
"""Addresses of a Wasm memory are 32 bits."""


def plan_problems(
    plan: Plan, kernels: Mapping[str, BundleKernel], pointers: Mapping[str, int]
) -> Iterator[str]:
    """What is wrong with a plan, one sentence each.

    Parameters
    ----------
    kernels
        By workload.
    pointers
        Pointer parameters of each workload's kernel, where they could be read.
    """
    regions = {"weight": plan.weights_bytes, "arena": plan.arena_bytes}
    if min(regions.values()) < 0 or sum(regions.values()) > MEMORY_BYTES:
        yield "The plan needs more memory than a page has."
    for i, buffer in enumerate(plan.buffers):
        size = regions.get(buffer.region)
        if size is None:
            yield f"Buffer {i} lies in the unknown region {buffer.region!r}."
        elif buffer.offset % ALIGNMENT_BYTES or not (
            0 <= buffer.offset <= buffer.offset + buffer.nbytes <= size
        ):
            yield f"Buffer {i} is misaligned or outside its {buffer.region} region."
        if buffer.pack and (
            buffer.region != "weight" or not 0 < _panel_bytes(buffer.pack, 1) <= buffer.nbytes
        ):
            yield f"Buffer {i} is too small for its packable weight, or no weight."
    yield from _port_problems(plan)
    yield from _step_problems(plan, kernels, pointers)


def _port_problems(plan: Plan) -> Iterator[str]:
    for port in (*plan.inputs, *plan.outputs):
        name = port.spec.name
        if port.spec.dtype not in DTYPE_BYTES or any(n < 0 for n in port.spec.shape):
            yield f"Tensor {name!r} has an unknown dtype or a wrong shape."
        elif not 0 <= port.buffer < len(plan.buffers):
            yield f"Tensor {name!r} has no buffer."
        elif plan.buffers[port.buffer].nbytes < port.spec.nbytes:
            yield f"The buffer of tensor {name!r} is too small."
        elif port in plan.inputs and plan.buffers[port.buffer].region != "arena":
            yield f"The input {name!r} would overwrite a weight."


def _step_problems(
    plan: Plan, kernels: Mapping[str, BundleKernel], pointers: Mapping[str, int]
) -> Iterator[str]:
    if [step.op for step in plan.steps] != ["call"] * (len(plan.steps) - 1) + ["return"]:
        yield "The steps are not calls and one return at the end."
    layouts: dict[int, int] = {}
    missing: set[str] = set()
    for i, step in enumerate(plan.steps):
        if not all(0 <= arg < len(plan.buffers) for arg in step.args):
            yield f"Step {i} names a buffer that does not exist."
            continue
        if step.op != "call":
            continue
        kernel = kernels.get(step.workload)
        if kernel is None or "simd128" not in kernel.tiers:
            missing.add(step.workload)
            continue
        if pointers.get(step.workload, len(step.args)) != len(step.args):
            yield (
                f"Step {i} gives {len(step.args)} buffers to a kernel of "
                f"{pointers[step.workload]}: {step.workload}."
            )
        widths = dict(kernel.panels)
        for position in widths.keys() - range(len(step.args)):
            yield f"Step {i} has no argument {position}, which its kernel wants in panels."
        for position, arg in enumerate(step.args):
            width, buffer = widths.get(position, 0), plan.buffers[arg]
            if width and (not buffer.pack or _panel_bytes(buffer.pack, width) > buffer.nbytes):
                yield f"Step {i} wants buffer {arg} in panels of {width}, which do not fit."
            # The engine keeps one copy of a weight, so its readers must agree on the layout.
            if buffer.pack and layouts.setdefault(arg, width) != width:
                yield f"Buffer {arg} is wanted in two layouts; step {i} is the second."
    for workload in sorted(missing):
        yield f"The workload {workload} has no kernel of the tier simd128."


def _panel_bytes(pack: tuple[int, int], width: int) -> int:
    """Bytes of a K x N weight of f32 in panels, the last one padded (docs/protocol.md)."""
    k, n = pack
    return -(-n // width) * width * k * 4
