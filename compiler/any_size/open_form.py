"""A unified model as what an engine takes at any size: its open plan, and kernels for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nnjit_studio.compiler.any_size.constants import Prefix, Repeated
from nnjit_studio.compiler.any_size.kernels.compiled import At
from nnjit_studio.compiler.any_size.kernels.tuned import Tuning, Winners
from nnjit_studio.compiler.any_size.on_gpu import OnGpu, Part, on_gpu, part_of
from nnjit_studio.compiler.any_size.probe import Probe
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.any_size.repeats import Bases, reading_once
from nnjit_studio.compiler.any_size.unified import Unified, calls
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.model import PlanPort, PlanStep
from nnjit_studio.model.open_plan import OpenBuffer, OpenPlan, OpenPort
from nnjit_studio.model.size import size
from nnjit_studio.records import Kernel

_TOLD = 10
"""Kernels between two words of progress."""


@dataclass(frozen=True)
class OpenForm:
    """The plan for any size, without the size of its weights, and the code of its kernels."""

    plan: OpenPlan
    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...]


def open_form(
    unified: Unified,
    found: Probe,
    example: Mapping[str, int],
    store: Weights,
    on_phase: Callable[[str], None],
    winners: Winners,
    webgpu: bool = False,
) -> OpenForm:
    """Compile a unified model for any size; whole tables are added to the weights.

    Products are compiled with the settings that won at a size, where there are some. With
    ``webgpu`` each kernel is a WGSL document too; where one cannot be, a note says so and there
    are none.

    Raises
    ------
    ModelError
        When a kernel, a constant or a control flow of it is made for one size.
    """
    symbolic = unified.symbolic()
    buffers = _buffers(unified, symbolic.plan, store)
    example = {d.name: example[d.name] for d in found.dims}

    tuning = Tuning(found.dims, example, winners)
    parts, steps = _parts(unified, symbolic)
    kernels = {}
    for number, part in enumerate(parts):
        if number % _TOLD == 0:
            on_phase(f"compiling kernel {number + 1} of {len(parts)}")
        kernels[part.name] = tuning.compiled(part.name, part.at, part.extents, part.shapes)
    loops = [step.loop for step in symbolic.plan.steps if step.loop]
    gpu = OnGpu()
    if webgpu and loops:
        gpu = OnGpu(notes=("The bundle has Wasm kernels alone: a GPU runs no loop of steps.",))
    elif webgpu:
        gpu = on_gpu(unified, symbolic, parts, steps, found.dims, example, on_phase)
    plan = OpenPlan(
        unified.sample.plan.name,
        found.dims,
        example,
        tuple(map(_port, symbolic.plan.inputs)),
        tuple(map(_port, symbolic.plan.outputs)),
        buffers,
        steps,
        {name: compiled.kernel for name, compiled in kernels.items()},
        0,
        tuple(size(loop.trips) for loop in loops),
        gpu.steps,
    )
    code = {(k.workload, k.tier): k for c in kernels.values() for k in c.code}
    notes = (*tuning.notes(len(kernels)), *gpu.notes)
    return OpenForm(plan, (*code.values(), *gpu.kernels), notes)


def _port(port: PlanPort) -> OpenPort:
    shape = tuple(size(n) for n in port.spec.shape)
    return OpenPort(port.spec.name, port.spec.dtype, shape, port.buffer, port.value)


def _buffers(unified: Unified, plan: Any, store: Weights) -> tuple[OpenBuffer, ...]:
    made = []
    for i, (buffer, held) in enumerate(zip(plan.buffers, unified.sample.plan.buffers, strict=True)):
        offset, nbytes = held.offset if held.region == "weight" else 0, size(buffer.nbytes)
        constant = unified.constants.get(i)
        if isinstance(constant, Prefix):
            offset = store.place(constant.base, constant.base.nbytes, None)
            nbytes = size(constant.base.nbytes)
        elif constant is not None:
            _check_calls(unified, i, constant)
            offset = store.place(constant.least, constant.least.nbytes, None)
            nbytes = size(constant.least.nbytes)
        if held.region == "state":
            raise refused("it has a state")
        made.append(OpenBuffer(held.region, offset, nbytes, held.pack, held.unit_bytes))
    return tuple(made)


def _check_calls(unified: Unified, buffer: int, constant: Repeated) -> None:
    """Refuse a repeated constant that anything but kernels, in its own shape, reads."""
    plan, programs = unified.sample.plan, unified.parts.programs
    shapes = {
        program.buffers[i].shape
        for step, program in zip(calls(plan), programs, strict=True)
        for i, place in enumerate(step.args)
        if place == buffer
    }
    starts = {c.start for step in plan.steps if step.loop for c in step.loop.carried}
    # A loop repeats what a tensor begins as, where all of it is one number.
    filled = buffer in starts and constant.least.size == 1
    others = any(buffer in step.args for step in plan.steps if step.op != "call") and not filled
    kept = plan.buffers[buffer].pack or any(port.buffer == buffer for port in plan.outputs)
    if len(shapes) > 1 or (not shapes and not filled) or others or kept:
        text = f"a constant of {list(constant.base.shape)} repeats along an open axis"
        raise refused(f"{text}, and other things than kernels read it")


def _bases(unified: Unified, step: PlanStep) -> Bases:
    """Of the constants that a call reads and that are stored once."""
    made = ((i, unified.constants.get(place)) for i, place in enumerate(step.args))
    return {i: tuple(c.least.shape) for i, c in made if isinstance(c, Repeated)}


def _parts(unified: Unified, symbolic: Any) -> tuple[list[Part], tuple[PlanStep, ...]]:
    """The kernels that steps call, and these steps by their names."""
    made: list[Part] = []
    names: dict[object, str] = {}
    run = calls(unified.sample.plan)
    keys = [(step.workload, tuple(_bases(unified, step).items())) for step in run]
    for position, (step, key) in enumerate(zip(run, keys, strict=True)):
        if key in names:
            continue
        program = symbolic.programs[position]
        name = f"{len(names)}:{step.workload.partition(':')[0]}"
        names[key] = name
        at = _reading_once(unified.program(position), dict(key[1]))
        made.append(part_of(name, at, program))
    given = iter(keys)
    steps = tuple(
        replace(
            s,
            workload=names[next(given)] if s.op == "call" else "",
            loop=replace(s.loop, trips=0) if s.loop else None,  # the plan has a size for it
        )
        for s in unified.sample.plan.steps
    )
    return made, steps


def _reading_once(at: At, bases: Bases) -> At:
    return (lambda sizes: reading_once(at(sizes), bases)) if bases else at
