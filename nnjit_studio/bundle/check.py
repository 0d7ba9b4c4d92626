"""Checks that a plan and its kernels fit together: the same rules as the engine's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import astuple, replace

from nnjit_studio.bundle.manifest import BundleKernel
from nnjit_studio.errors import UserError
from nnjit_studio.model import (
    ALIGNMENT_BYTES,
    DTYPE_BYTES,
    Generation,
    Plan,
    PlanPort,
    PlanStep,
    TensorSpec,
)
from nnjit_studio.model.open_plan import SCALARS, OpenPlan
from nnjit_studio.model.plan import HALF_BYTES, MOST_TRIPS, NOWHERE, WORD_BYTES, Loop

MEMORY_BYTES = 2**32
"""Addresses of a Wasm memory are 32 bits."""
GPU_BYTES = 2**40
"""Far above any GPU's memory, which the engine asks for buffer by buffer."""


def plan_problems(
    plan: Plan,
    kernels: Mapping[str, BundleKernel],
    pointers: Mapping[str, int],
    layouts: dict[int, int] | None = None,
    most_bytes: int = MEMORY_BYTES,
) -> Iterator[str]:
    """What is wrong with a plan, one sentence each.

    Parameters
    ----------
    kernels
        By workload.
    pointers
        Pointer parameters of each workload's kernel, where they could be read.
    layouts
        Panel width of each packable weight by offset, of other plans over the
        same weights; those of this plan are added.
    most_bytes
        Of memory; more where a GPU may run the plan.
    """
    regions = {"weight": plan.weights_bytes, "arena": plan.arena_bytes, "state": plan.state_bytes}
    if min(regions.values()) < 0 or sum(regions.values()) > most_bytes:
        yield "The plan needs more memory than a page has."
    regions["row"] = MEMORY_BYTES  # a loop's register lies in another buffer
    for i, buffer in enumerate(plan.buffers):
        size = regions.get(buffer.region)
        if size is None:
            yield f"Buffer {i} lies in the unknown region {buffer.region!r}."
        elif buffer.offset % ALIGNMENT_BYTES or not (
            0 <= buffer.offset <= buffer.offset + buffer.nbytes <= size
        ):
            yield f"Buffer {i} is misaligned or outside its {buffer.region} region."
        if buffer.pack and (
            buffer.region != "weight" or not 0 < buffer.panel_bytes(1) <= buffer.nbytes
        ):
            yield f"Buffer {i} is too small for its packable weight, or no weight."
        if buffer.unit_bytes not in (HALF_BYTES, WORD_BYTES):
            yield f"Buffer {i} has elements of {buffer.unit_bytes} bytes."
    yield from _port_problems(plan)
    yield from _step_problems(plan, kernels, pointers, {} if layouts is None else layouts)


def open_problems(
    plan: OpenPlan, kernels: Mapping[str, BundleKernel], pointers: Mapping[str, int]
) -> Iterator[str]:
    """What is wrong with a plan for any size, at the sizes of its example."""
    for name, kernel in plan.kernels.items():
        if len(kernel.variants) != math.prod(by for _, by in kernel.selectors):
            yield f"The kernel {name} has another number of variants than its remainders."
            return
        for variant in kernel.variants:
            known = pointers.get(variant.workload, -1)
            used = {len(s.args) for s in plan.steps if s.workload == name}
            if used and used != {known - len(variant.scalars)}:
                yield f"The kernel {variant.workload} takes other arguments than its steps give."
            if any(scalar.kind not in SCALARS for scalar in variant.scalars):
                yield f"The kernel {variant.workload} has a parameter of an unknown kind."
    try:
        sized = plan.at(plan.example)
    except (UserError, KeyError, ArithmeticError, OverflowError) as e:
        yield f"The plan has no form at its example's sizes: {e}"
        return
    called = {step.workload: len(step.args) for step in sized.steps}
    yield from plan_problems(replace(sized, gpu_steps=plan.gpu_steps), kernels, called)


def _port_problems(plan: Plan) -> Iterator[str]:
    for port in (*plan.inputs, *plan.outputs):
        name = port.spec.name
        if port.spec.dtype not in DTYPE_BYTES or any(n < 0 for n in port.spec.shape):
            yield f"Tensor {name!r} has an unknown dtype or a wrong shape."
        elif not 0 <= port.buffer < len(plan.buffers):
            yield f"Tensor {name!r} has no buffer."
        elif plan.buffers[port.buffer].nbytes < port.spec.nbytes:
            yield f"The buffer of tensor {name!r} is too small."
        elif port.found and not _has_count(port, plan):
            yield f"Nothing tells how much of tensor {name!r} is there."
        elif port in plan.inputs and plan.buffers[port.buffer].region != "arena":
            yield f"The input {name!r} would overwrite a weight or the state."


def _has_count(port: PlanPort, plan: Plan) -> bool:
    found = port.found
    return (
        found is not None
        and port in plan.outputs
        and 0 <= found.axis < len(port.spec.shape)
        and 0 <= found.count < len(plan.buffers)
        and plan.buffers[found.count].region == "arena"
        and plan.buffers[found.count].nbytes >= DTYPE_BYTES["i64"]
    )


def _step_problems(
    plan: Plan,
    kernels: Mapping[str, BundleKernel],
    pointers: Mapping[str, int],
    layouts: dict[int, int],
) -> Iterator[str]:
    for steps in (plan.steps, plan.on_gpu.steps):
        ops = [step.op for step in steps]
        if ops[-1:] != ["return"] or not set(ops[:-1]) <= {"call", "append", "loop", "end"}:
            yield "The steps are not calls and one return at the end, or appends and loops."
            break
        edges = [op for op in ops if op in ("loop", "end")]
        if edges != ["loop", "end"] * (len(edges) // 2):
            yield "The loops do not end one after another."
    for i, step in enumerate(plan.gpu_steps):
        if not all(0 <= arg < len(plan.buffers) for arg in step.args):
            yield f"Step {i} of a GPU names a buffer that does not exist."
    missing: set[str] = set()
    for i, step in enumerate(plan.steps):
        if not all(0 <= arg < len(plan.buffers) for arg in step.args):
            yield f"Step {i} names a buffer that does not exist."
            continue
        if step.op == "append" and not _fits(step, plan):
            yield f"Step {i} appends outside its buffers."
        if step.op == "loop" and not (step.loop and _repeats(step.loop, plan)):
            yield f"The loop {step.node} does not fit into its buffers."
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
            if width and (not buffer.pack or buffer.panel_bytes(width) > buffer.nbytes):
                yield f"Step {i} wants buffer {arg} in panels of {width}, which do not fit."
            # The engine keeps one copy of a weight, so its readers must agree on the layout.
            if buffer.pack and layouts.setdefault(buffer.offset, width) != width:
                yield f"Buffer {arg} is wanted in two layouts; step {i} is the second."
    for workload in sorted(missing):
        yield f"The workload {workload} has no kernel of the tier simd128."


def _fits(step: PlanStep, plan: Plan) -> bool:
    """Whether an append stays in its rows and its cache, whatever the slot."""
    append = step.append
    if append is None or len(step.args) not in (2, 3):
        return False
    rows, cache, *slot = (plan.buffers[a] for a in step.args)
    sizes = (append.heads, append.rows, append.width, append.capacity)
    return (
        all(type(n) is int and n > 0 for n in sizes)
        and append.nbytes in (1, 2, 4)
        and append.rows <= append.capacity
        and append.heads * append.rows * append.width * append.nbytes <= rows.nbytes
        and append.heads * append.capacity * append.width * append.nbytes <= cache.nbytes
        and cache.region != "weight"
        and all(s.nbytes >= DTYPE_BYTES["i64"] for s in slot)
    )


def _repeats(loop: Loop, plan: Plan) -> bool:
    """Whether all that a loop reads and writes lies inside its buffers, in every run."""
    named = [loop.number, *(n for pair in loop.copies for n in pair)]
    named += [n for c in loop.carried for n in astuple(c)]
    named += [n for r in loop.rows for n in (r.whole, r.row)]
    counted = loop.count != NOWHERE
    if not all(0 <= n < len(plan.buffers) for n in (*named, *[loop.count] * counted)):
        return False
    nbytes = [b.nbytes for b in plan.buffers]
    regions = [b.region for b in plan.buffers]
    return (
        0 <= loop.trips <= MOST_TRIPS
        and regions[loop.number] == "arena"
        and all(nbytes[n] >= DTYPE_BYTES["i64"] for n in (loop.number, *[loop.count] * counted))
        and all(
            regions[c.read] == regions[c.written] == "row"
            and regions[c.last] == regions[c.other] == "arena"
            and nbytes[c.read] == nbytes[c.written] == nbytes[c.last] == nbytes[c.other]
            and nbytes[c.start] > 0
            for c in loop.carried
        )
        and all(
            regions[r.row] == "row"
            and loop.trips * nbytes[r.row] <= nbytes[r.whole]
            and not counted
            for r in loop.rows
        )
        and all(nbytes[a] >= nbytes[b] and regions[b] != "weight" for a, b in loop.copies)
    )


def generation_problems(
    facts: Generation, decode: Plan, prefill: Plan | None, extend: Plan | None = None
) -> Iterator[str]:
    """What keeps plans and facts from making text together."""
    if bool(facts.rows) != (prefill is not None):
        yield "The bundle's facts of generation and its prefill plan do not fit."
    if facts.extends != (extend is not None) or (facts.extends and prefill is None):
        yield "The bundle's facts of generation and its extend plan do not fit."
    for plan, rows in ((decode, 1), (prefill, facts.rows), (extend, facts.rows)):
        if plan is None:
            continue
        inputs = {port.spec.name: port.spec for port in plan.inputs}
        known = {facts.ids, facts.mask, facts.positions, facts.slot, facts.last}
        logits = next((p.spec for p in plan.outputs if p.spec.name == facts.logits), None)
        if inputs.keys() - known or inputs.get(facts.ids, _NONE).shape != (1, rows):
            yield "A plan of the decoder has other inputs than its facts of generation say."
        if logits is None or logits.dtype != "f32" or len(logits.shape) != 3:
            yield f"A plan of the decoder has no logits {facts.logits!r}."
    wanted = (facts.slot, facts.mask)
    given = {port.spec.name: port.spec for port in decode.inputs}
    if any(name not in given for name in wanted) or given[facts.mask].size != facts.capacity:
        yield "The decode plan has no slot, or no mask of its capacity."
    if extend is not None:
        ports = {port.spec.name: port.spec for port in extend.inputs}
        behind = ports.get(facts.mask, _NONE).size
        if facts.slot not in ports or behind != facts.capacity:
            yield "The extend plan has no slot, or no mask of its capacity."
    common = {(p.weights_bytes, p.state_bytes) for p in (decode, prefill, extend) if p is not None}
    if len(common) > 1:
        yield "The plans of the decoder do not share their weights and state."


_NONE = TensorSpec("", (), "f32")
