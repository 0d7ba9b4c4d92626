"""A plan in segments that run one after another, each on one device, with copies between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from nnjit_studio.model.graph import TensorSpec
from nnjit_studio.model.placement import CPU, GPU, Device, Work, calls_of
from nnjit_studio.model.plan import Plan, PlanBuffer, PlanPort, PlanStep
from nnjit_studio.model.storage import aligned

SEGMENTS_VERSION = 1


@dataclass(frozen=True)
class Segment:
    """Steps on one device, as a plan of their own: its inputs are copied there ahead of them, its
    outputs away from there behind them.
    """

    device: Device
    first: int
    """The position of its first step in the whole plan."""
    plan: Plan
    buffers: tuple[int, ...]
    """Of each of its buffers the number in the whole plan."""


@dataclass(frozen=True)
class MixedPlan:
    """All of a model's steps, divided between a GPU and Wasm."""

    segments: tuple[Segment, ...]

    @property
    def devices(self) -> tuple[Device, ...]:
        """Of each step of the whole plan."""
        return tuple(s.device for s in self.segments for _ in calls_of(s.plan))

    def workloads(self, device: Device) -> frozenset[str]:
        """Keys of the kernels that a device needs."""
        mine = (s.plan for s in self.segments if s.device == device)
        return frozenset(step.workload for plan in mine for step in calls_of(plan))

    def to_json(self) -> dict[str, Any]:
        segments = [{**asdict(s), "plan": s.plan.to_json()} for s in self.segments]
        return {"version": SEGMENTS_VERSION, "segments": segments}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MixedPlan:
        """The counterpart of :meth:`to_json`.

        Raises
        ------
        ValueError, KeyError, TypeError
            When it is no mixed plan of this version.
        """
        if data["version"] != SEGMENTS_VERSION:
            raise ValueError(f"its version is {data['version']!r}")
        return cls(
            tuple(
                Segment(
                    _device(s["device"]),
                    int(s["first"]),
                    Plan.from_json(s["plan"]),
                    tuple(map(int, s["buffers"])),
                )
                for s in data["segments"]
            )
        )


def _device(name: object) -> Device:
    for known in (GPU, CPU):
        if name == known:
            return known
    raise ValueError(f"it has a device {name!r}")


COPY = "copy of buffer "
"""How the ports are named that carry a tensor from one segment to another."""


def divide(plan: Plan, steps: Sequence[Work], devices: Sequence[Device]) -> MixedPlan:
    """The plan in segments: neighbouring steps of one device are one.

    A buffer goes to a device when the first segment there needs it, and stays there. On a GPU,
    where segments share memory for what they compute, what a later one needs is state.
    """
    runs = [list(run) for _, run in groupby(range(len(steps)), devices.__getitem__)]
    flow = _Flow(plan, steps, runs, devices)
    calls = calls_of(plan)
    whole = [
        _segment(plan, calls[run[0] : run[-1] + 1], run[0], flow, at) for at, run in enumerate(runs)
    ]
    return MixedPlan(tuple(whole))


class _Flow:
    """What each segment is given, leaves for others, and keeps for itself.

    Attributes
    ----------
    given, left
        Buffers, by the position of a segment.
    kept
        Buffers on the GPU that two segments use, with their places in its state.
    outputs
        Of the model, by the position of the segment that leaves them.
    leaving
        Of what a segment is given, the positions of those that left it.
    """

    def __init__(
        self,
        plan: Plan,
        steps: Sequence[Work],
        runs: Sequence[Sequence[int]],
        devices: Sequence[Device],
    ) -> None:
        self.devices = [devices[run[0]] for run in runs]
        self.given: list[dict[int, None]] = [{} for _ in runs]
        self.left: list[dict[int, None]] = [{} for _ in runs]
        self.leaving: list[dict[int, int]] = [{} for _ in runs]
        writer = {port.buffer: -1 for port in plan.inputs}
        here: dict[Device, set[int]] = {GPU: set(), CPU: set()}
        used: dict[int, set[int]] = {}
        for b in (p.buffer for p in plan.outputs if p.buffer in writer):
            here[self.devices[0]].add(b)  # an input as it is
            self.given[0][b], used[b] = None, {0} if self.devices[0] == GPU else set()
        for at, run in enumerate(runs):
            device = self.devices[at]
            for step in (steps[i] for i in run):
                for b in step.reads:
                    if b not in here[device]:
                        here[device].add(b)
                        self.given[at][b] = None
                        if writer[b] >= 0:
                            self.left[writer[b]][b] = None
                            self.leaving[at][b] = writer[b]
                for b in step.writes:
                    writer[b] = at
                    for other, buffers in here.items():
                        (buffers.add if other == device else buffers.discard)(b)
                if device == GPU:
                    for b in (*step.reads, *step.writes):
                        used.setdefault(b, set()).add(at)
        self.outputs = {port.spec.name: max(0, writer.get(port.buffer, 0)) for port in plan.outputs}
        kept, self.state_bytes = [b for b, segments in used.items() if len(segments) > 1], 0
        self.kept: dict[int, int] = {}
        for b in kept:
            self.kept[b] = self.state_bytes
            self.state_bytes += aligned(plan.buffers[b].nbytes)


def _segment(plan: Plan, calls: Sequence[PlanStep], first: int, flow: _Flow, at: int) -> Segment:
    gpu = flow.devices[at] == GPU
    outputs = [port for port in plan.outputs if flow.outputs[port.spec.name] == at]
    ports = [b for port in outputs for b in (port.buffer, *_count(port))]
    numbers = dict.fromkeys((*flow.given[at], *(b for s in calls for b in s.args), *ports))
    places = {b: place for place, b in enumerate(numbers)}

    def buffer(b: int) -> PlanBuffer:
        found = plan.buffers[b]
        return (
            replace(found, region="state", offset=flow.kept[b]) if gpu and b in flow.kept else found
        )

    def port(whole: PlanPort) -> PlanPort:
        found = whole.found and replace(whole.found, count=places[whole.found.count])
        return replace(whole, buffer=places[whole.buffer], found=found)

    def output(b: int, leaves: int) -> PlanPort | None:
        """What brings a buffer to the page anyway."""
        mine = (p for p in plan.outputs if flow.outputs[p.spec.name] == leaves and not p.found)
        return next((p for p in mine if p.buffer == b), None)

    def copy(b: int) -> PlanPort:
        return PlanPort(TensorSpec(f"{COPY}{b}", (plan.buffers[b].nbytes,), "u8"), places[b])

    def given(b: int) -> PlanPort:
        whole = inputs.get(b) or output(b, flow.leaving[at].get(b, -1))
        return port(whole) if whole else copy(b)

    inputs = {p.buffer: p for p in plan.inputs}
    left = [b for b in flow.left[at] if not output(b, at)]
    return Segment(
        flow.devices[at],
        first,
        replace(
            plan,
            name=f"{plan.name}, segment {at + 1}",
            inputs=tuple(map(given, flow.given[at])),
            outputs=(*map(port, outputs), *map(copy, left)),
            buffers=tuple(map(buffer, numbers)),
            steps=(
                *(replace(s, args=tuple(places[b] for b in s.args)) for s in calls),
                PlanStep("return"),
            ),
            state_bytes=flow.state_bytes if gpu else 0,
            gpu_steps=(),
        ),
        tuple(numbers),
    )


def _count(port: PlanPort) -> tuple[int, ...]:
    return (port.found.count,) if port.found else ()
