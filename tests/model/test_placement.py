"""Steps on two devices: the cheapest division, and segments that do what the whole plan does."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from nnjit_studio.model import FoundAxis, Node, Plan, PlanBuffer, PlanPort, PlanStep, TensorSpec
from nnjit_studio.model.placement import NEVER, CopyCost, Device, Work, place, works
from nnjit_studio.model.segments import MixedPlan, divide

KEYS = [f"k{i}" for i in range(10)]
COST = CopyCost(down_ms=1.0, up_ms=0.5, bytes_per_ms=100.0)


def plan_of(
    steps: Sequence[tuple[Sequence[int], int]],
    outputs: Sequence[int],
    inputs: Sequence[int] = (0,),
    found: int = -1,
) -> tuple[Plan, list[Node]]:
    """Steps that read some buffers and write one; buffers from 100 on are weights."""
    count = 1 + max(*inputs, *(written for _, written in steps))
    port = lambda b, name: PlanPort(TensorSpec(f"{name}{b}", (16,), "f32"), b)  # noqa: E731
    outs = [port(b, "out") for b in outputs]
    if found >= 0:
        outs[0] = replace(outs[0], found=FoundAxis(0, found))
    plan = Plan(
        "m",
        tuple(port(b, "in") for b in inputs),
        tuple(outs),
        (*(PlanBuffer("arena", 64 * b, 64) for b in range(count)), PlanBuffer("weight", 0, 64)),
        (
            *(
                PlanStep("call", f"k{i}", (*(min(b, count) for b in read), written), f"n{i}")
                for i, (read, written) in enumerate(steps)
            ),
            PlanStep("return"),
        ),
        64,
        64 * count,
    )
    nodes = [
        Node(f"n{i}", "", tuple(map(str, read)), (str(written),), f"k{i}")
        for i, (read, written) in enumerate(steps)
    ]
    return plan, nodes


def run(plan: Plan, memory: dict[int, object], values: Mapping[str, object]) -> dict[str, object]:
    """A plan on values that tell how they were made; what is read must be in memory."""
    for port in plan.inputs:
        memory[port.buffer] = values[port.spec.name]
    for step in plan.steps[:-1]:
        *read, written = step.args
        given = ["w" if plan.buffers[b].region == "weight" else memory[b] for b in read]
        memory[written] = (step.workload, *given)
    return {port.spec.name: memory[port.buffer] for port in plan.outputs}


def run_mixed(mixed: MixedPlan, values: Mapping[str, object]) -> dict[str, object]:
    """The segments: Wasm's memory stays, a GPU forgets all but its state from one to the next."""
    known = dict(values)
    memory: dict[str, dict[int, object]] = {"webgpu": {}, "wasm": {}}
    for segment in mixed.segments:
        whole = memory[segment.device]
        here = {i: whole[b] for i, b in enumerate(segment.buffers) if b in whole}
        if segment.device == "webgpu":
            state = segment.plan.buffers
            here = {i: v for i, v in here.items() if state[i].region == "state"}
        known |= run(segment.plan, here, known)
        whole.update({segment.buffers[i]: value for i, value in here.items()})
    return {name: value for name, value in known.items() if name.startswith("out")}


def cost_of(
    steps: Sequence[Work],
    devices: Sequence[Device],
    nbytes: Mapping[int, int],
    inputs: Sequence[int],
    outputs: Sequence[int],
) -> float:
    """What a division takes, counted step by step."""
    total = sum(
        s.gpu_ms if d == "webgpu" else s.wasm_ms for s, d in zip(steps, devices, strict=True)
    )
    at: dict[int, set[Device]] = {b: {"wasm"} for b in inputs}
    page = Work(tuple(outputs), ())
    for step, device in zip((*steps, page), (*devices, "wasm"), strict=True):
        for b in step.reads:
            if device not in at[b]:
                total += COST.ms(nbytes[b], device)
                at[b].add(device)
        at |= {b: {device} for b in step.writes}
    return total


@pytest.mark.parametrize("seed", range(20))
def test_no_division_is_cheaper(seed: int) -> None:
    rng = random.Random(seed)
    count = 8
    steps = [
        Work(
            tuple(rng.sample(range(i + 2), k=min(i + 1, rng.randint(1, 3)))),
            (i + 2,),
            NEVER if rng.random() < 0.2 else rng.choice((0.1, 1.0, 4.0)),
            rng.choice((0.1, 1.0, 4.0)),
        )
        for i in range(count)
    ]
    nbytes = {b: rng.choice((4, 100, 400)) for b in range(count + 2)}
    ends = [0, 1], [count + 1, rng.randint(2, count)]
    found = cost_of(steps, place(steps, nbytes, *ends, COST), nbytes, *ends)
    every = itertools.product(("webgpu", "wasm"), repeat=count)
    best = min(cost_of(steps, devices, nbytes, *ends) for devices in every)
    assert math.isclose(found, best, abs_tol=0.01)


def test_without_times_only_what_the_gpu_cannot_run_is_wasms() -> None:
    plan, nodes = plan_of([((0, 100), 1), ((1,), 2), ((1, 2), 3)], [3])
    steps = works(plan, nodes, {"k0", "k2"})
    assert steps is not None
    assert [s.reads for s in steps] == [(0,), (1,), (1, 2)], "a weight is on both devices"
    assert place(steps, dict.fromkeys(range(4), 64), [0], [3]) == ["webgpu", "wasm", "webgpu"]
    whole = works(plan, nodes, KEYS) or []
    assert place(whole, dict.fromkeys(range(4), 64), [0], [3]) == ["webgpu"] * 3


def test_a_step_moves_only_if_that_saves_more_than_its_copies() -> None:
    plan, nodes = plan_of([((0,), 1), ((1,), 2), ((2,), 3)], [3])
    nbytes = dict.fromkeys(range(4), 64)
    for slow, expected in ((3.0, "wasm"), (2.0, "webgpu")):  # both copies cost 2.78 ms
        times = {"k0": (0.1, 9.0), "k1": (slow, 0.1), "k2": (0.1, 9.0)}
        steps = works(plan, nodes, KEYS, times) or []
        assert place(steps, nbytes, [0], [3], COST) == ["webgpu", expected, "webgpu"]


def test_what_says_how_large_an_output_is_runs_in_wasm() -> None:
    plan, nodes = plan_of([((0,), 1), ((1,), 2), ((1,), 3)], [2], found=3)
    steps = works(plan, nodes, KEYS) or []
    devices = place(steps, dict.fromkeys(range(4), 64), [0], [2])
    assert devices == ["webgpu", "wasm", "wasm"]
    first, second = divide(plan, steps, devices).segments
    (out,) = second.plan.outputs
    assert out.found and second.buffers[out.found.count] == 3 and second.buffers[out.buffer] == 2
    assert [p.spec.name for p in second.plan.inputs] == [p.spec.name for p in first.plan.outputs]


def test_plans_with_state_or_other_steps_are_not_divided() -> None:
    plan, nodes = plan_of([((0,), 1)], [1])
    assert works(replace(plan, state_bytes=64), nodes, ()) is None
    assert works(replace(plan, steps=(PlanStep("loop"), *plan.steps)), nodes, ()) is None


@pytest.mark.parametrize("seed", range(20))
def test_segments_compute_what_the_plan_does(seed: int) -> None:
    rng = random.Random(seed)
    shape = []
    for i in range(10):
        read = rng.sample(range(i + 2), k=min(i + 1, rng.randint(1, 3)))
        over = rng.random() < 0.2 and i  # a buffer that was written before
        to = rng.randint(2, i + 1) if over else i + 2
        shape.append(((*read, *[100] * rng.randint(0, 1)), to))
    written = sorted({w for _, w in shape})
    readable = {0, 1}
    steps = []
    for read, to in shape:  # only what is there is read
        steps.append(([b for b in read if b in readable or b == 100] or [0], to))
        readable.add(to)
    plan, nodes = plan_of(steps, [0, *rng.sample(written, k=3)], (0, 1))
    given = works(plan, nodes, KEYS) or []
    devices = [rng.choice(("webgpu", "wasm")) for _ in steps]
    mixed = divide(plan, given, devices)
    assert list(mixed.devices) == devices
    values = {"in0": "x", "in1": "y"}
    assert run_mixed(mixed, values) == run(plan, {}, values)
    again = MixedPlan.from_json(mixed.to_json())
    assert again == mixed
    for segment in mixed.segments:
        left = [port.buffer for port in segment.plan.outputs]
        assert len(set(left)) == len(left), "what goes to the page is not copied once more"


def test_a_device_that_is_none_is_refused() -> None:
    segment = {"device": "npu", "first": 0, "plan": {}, "buffers": []}
    with pytest.raises(ValueError, match="'npu'"):
        MixedPlan.from_json({"version": 1, "segments": [segment]})
