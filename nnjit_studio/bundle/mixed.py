"""Checks of segments: together they are the plan, and none reads what is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nnjit_studio.bundle.check import GPU_BYTES, plan_problems
from nnjit_studio.bundle.manifest import BundleKernel
from nnjit_studio.model import Plan
from nnjit_studio.model.placement import calls_of
from nnjit_studio.model.segments import COPY, MixedPlan


def mixed_problems(
    mixed: MixedPlan,
    plan: Plan,
    kernels: Mapping[str, BundleKernel],
    pointers: Mapping[str, int],
) -> Iterator[str]:
    """What is wrong with the segments of a plan, one sentence each.

    Parameters
    ----------
    kernels, pointers
        Of Wasm, as in :func:`~nnjit_studio.bundle.check.plan_problems`.
    """
    wanted = [(step.workload, step.args) for step in calls_of(plan)]
    found: list[tuple[str, tuple[int, ...]]] = []
    known = {port.spec.name for port in plan.inputs}
    layouts: dict[int, int] = {}
    for number, segment in enumerate(mixed.segments):
        part = segment.plan
        for problem in plan_problems(_in_arena(part), kernels, pointers, layouts, GPU_BYTES):
            yield f"Segment {number}: {problem}"
        if len(segment.buffers) != len(part.buffers) or segment.first != len(found):
            yield f"Segment {number} is not where its numbers say."
            return
        for port in part.inputs:
            if port.spec.name not in known:
                yield f"Segment {number} is given {port.spec.name!r}, which nothing leaves."
        known |= {port.spec.name for port in part.outputs}
        found += [
            (step.workload, tuple(segment.buffers[a] for a in step.args if a < len(part.buffers)))
            for step in calls_of(part)
        ]
    if found != wanted:
        yield "The segments are not the steps of the plan."
    if {n for n in known if not n.startswith(COPY)} != {
        port.spec.name for port in (*plan.inputs, *plan.outputs)
    }:
        yield "The segments do not leave the outputs of the plan."


def _in_arena(part: Plan) -> Plan:
    """The plan with its state in the arena: what is copied to a GPU may be there, to stay."""
    buffers = tuple(replace(b, region="arena") if b.region == "state" else b for b in part.buffers)
    return replace(
        part, buffers=buffers, arena_bytes=max(part.arena_bytes, part.state_bytes), state_bytes=0
    )
