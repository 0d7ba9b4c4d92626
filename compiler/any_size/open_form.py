"""A unified model as what an engine takes at any size: its open plan, and kernels for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnjit_studio.compiler.any_size.constants import Prefix, Repeated
from nnjit_studio.compiler.any_size.fused import Attentions, Fused, attentions, in_one
from nnjit_studio.compiler.any_size.kernels.compiled import At, Compiled, any_size_kernel
from nnjit_studio.compiler.any_size.kernels.cuts import bounded
from nnjit_studio.compiler.any_size.kernels.families import family_of
from nnjit_studio.compiler.any_size.kernels.part import Part, part_of
from nnjit_studio.compiler.any_size.kernels.tuned import Tuning
from nnjit_studio.compiler.any_size.on_gpu import OnGpu, attention_part, on_gpu
from nnjit_studio.compiler.any_size.probe import Probe
from nnjit_studio.compiler.any_size.refusal import reason, refused
from nnjit_studio.compiler.any_size.repeats import Bases, reading_once
from nnjit_studio.compiler.any_size.unified import Unified, calls
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.errors import CompileError, ModelError
from nnjit_studio.model import PlanPort, PlanStep
from nnjit_studio.model.family import Family
from nnjit_studio.model.open_plan import OpenBuffer, OpenPlan, OpenPort
from nnjit_studio.model.size import Dim, Size, size
from nnjit_studio.records import Kernel
from nnjit_studio.records.size_tuning import KnownSettings

_TOLD = 10
"""Kernels between two words of progress."""


@dataclass(frozen=True)
class OpenForm:
    """The plan for any size, without the size of its weights, and the code of its kernels."""

    plan: OpenPlan
    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...]
    ends: tuple[Mapping[str, int], ...]
    """Sizes at which kernels have code of their own, beyond those of all remainders."""


def open_form(
    unified: Unified,
    found: Probe,
    example: Mapping[str, int],
    store: Weights,
    on_phase: Callable[[str], None],
    known: KnownSettings,
    webgpu: bool = False,
) -> OpenForm:
    """Compile a unified model for any size; whole tables are added to the weights.

    Kernels are compiled with the settings that tuning found, where there are some. With
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

    parts, steps, programs = _parts(unified, symbolic)
    attention = attentions(symbolic.plan, steps, programs, found.dims)
    tuning = Tuning(found.dims, example, known)
    wasm = _in_wasm(symbolic, parts, steps, attention, tuning, on_phase)
    loops = [step.loop for step in symbolic.plan.steps if step.loop]
    gpu = OnGpu()
    if webgpu and loops:
        gpu = OnGpu(notes=("The bundle has Wasm kernels alone: a GPU runs no loop of steps.",))
    elif webgpu and any(port.found for port in symbolic.plan.outputs):
        gpu = OnGpu(notes=("The bundle has Wasm kernels alone: data says how large an output is.",))
    elif webgpu:
        gpu = on_gpu(symbolic, parts, steps, attention, found.dims, example, on_phase)
    dims = bounded(found.dims, wasm.most)
    ended = tuple(now for was, now in zip(found.dims, dims, strict=True) if was != now)
    if not all(d.takes(example[d.name]) for d in ended):
        raise refused(f"its loops end at {', '.join(f'{d}={d.high}' for d in ended)}")
    plan = OpenPlan(
        unified.sample.plan.name,
        dims,
        example,
        tuple(map(_port, symbolic.plan.inputs)),
        tuple(map(_port, symbolic.plan.outputs)),
        buffers,
        wasm.steps,
        {name: compiled.kernel for name, compiled in wasm.kernels.items()},
        0,
        tuple(size(loop.trips) for loop in loops),
        gpu.steps if gpu.steps != wasm.steps else (),
    )
    plan = replace(plan, buffers=_needed(plan, (*buffers, *wasm.workspaces)))
    code = {(k.workload, k.tier): k for c in wasm.kernels.values() for k in c.code}
    told = (
        f"{d} is {d.high} or less in the bundle: a loop of its kernels ends there." for d in ended
    )
    ends = ({**example, d.name: d.high} for d in ended)
    notes = (*wasm.notes, *gpu.notes, *told)
    return OpenForm(plan, (*code.values(), *gpu.kernels), notes, (*tuning.ends, *ends))


def families(
    unified: Unified,
    dims: Sequence[Dim],
    sizes: Sequence[Mapping[str, int]],
    models: Sequence[BuiltModel],
) -> tuple[Family, ...]:
    """The kernels that a bundle for any size has settings for.

    Parameters
    ----------
    models
        The static form at each of the sizes; a kernel that one of them lacks is left out.
    """
    symbolic = unified.symbolic()
    parts, steps, programs = _parts(unified, symbolic)
    # Attention is one kernel in a bundle, without settings to choose.
    steps = in_one(steps, attentions(symbolic.plan, steps, programs, dims))
    called = {step.workload for step in steps}
    known = [{w.key for w in model.workloads} for model in models]
    found: dict[str, Family] = {}
    for part in parts:
        family = family_of(part.symbolic[0], part.at, dims) if part.name in called else None
        if family is not None:
            made = [part.at(each) for each in sizes]
            keys = tuple(workload_for(program, subject_of(program)).key for program in made)
            if all(key in mine for key, mine in zip(keys, known, strict=True)):
                found[family.key] = replace(family, at=keys)
    return tuple(found.values())


@dataclass(frozen=True)
class _InWasm:
    """Kernels by name, the steps that call them, and buffers behind the plan's for their scores."""

    kernels: dict[str, Compiled]
    steps: tuple[PlanStep, ...]
    workspaces: tuple[OpenBuffer, ...]
    notes: tuple[str, ...]
    most: dict[Size, int]
    """What no size of the kernels exceeds."""


def _in_wasm(
    symbolic: Any,
    parts: Sequence[Part],
    steps: Sequence[PlanStep],
    found: Attentions,
    tuning: Tuning,
    on_phase: Callable[[str], None],
) -> _InWasm:
    kernels: dict[str, Compiled] = {}
    notes: list[str] = []
    for name, (first_call, *_) in found.items():
        part = attention_part(name, first_call, symbolic)
        try:
            one = any_size_kernel(name, part.at, part.extents, tuning.dims, part.shapes)
            if one.workspace.constant == 0:
                raise refused(f"{name} has no template at some sizes")
            kernels[name] = one
        except (CompileError, ModelError) as error:
            notes.append(f"Attention is three kernels in Wasm: {reason(error)}")
    workspaces: list[OpenBuffer] = []
    first = len(symbolic.plan.buffers)

    def args(name: str, fused: Fused) -> tuple[int, ...]:
        scores = first + len(workspaces)
        workspaces.append(OpenBuffer("arena", 0, kernels[name].workspace))
        return (*fused.args, *(fused.args[-1:] * fused.inner), scores)

    mine = in_one(steps, {name: found[name] for name in kernels}, args)
    called = {step.workload for step in mine}
    wanted = [part for part in parts if part.name in called]
    made: dict[str, Compiled] = {}
    # Those without a template first: they are quick to make, and a model is refused for them.
    ordered = sorted(wanted, key=lambda part: subject_of(part.at(tuning.example)) is not None)
    for number, part in enumerate(ordered):
        if number % _TOLD == 0:
            on_phase(f"compiling kernel {number + 1} of {len(wanted)}")
        try:
            made[part.name] = tuning.compiled(part)
        except CompileError as error:  # a tile that is none at one of the sizes of a kernel
            raise refused(error.error.rstrip(".")) from error
    kernels |= {part.name: made[part.name] for part in wanted}
    most: dict[Size, int] = {}
    for kernel in kernels.values():
        for value, end in kernel.most.items():
            most[value] = min(end, most.get(value, end))
    return _InWasm(kernels, mine, tuple(workspaces), (*tuning.notes(len(kernels)), *notes), most)


def _needed(plan: OpenPlan, buffers: Sequence[OpenBuffer]) -> tuple[OpenBuffer, ...]:
    """The buffers, of which those that no step has take no memory."""
    used = {place for step in (*plan.steps, *plan.gpu_steps) for place in step.args}
    used |= {port.buffer for port in plan.inputs}
    used |= {buffer for port in plan.outputs for buffer in port.buffers}
    return tuple(
        b if i in used or b.region != "arena" else replace(b, nbytes=size(0))
        for i, b in enumerate(buffers)
    )


def _port(port: PlanPort) -> OpenPort:
    shape = tuple(size(n) for n in port.spec.shape)
    return OpenPort(port.spec.name, port.spec.dtype, shape, port.buffer, port.value, port.found)


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


def _parts(unified: Unified, symbolic: Any) -> tuple[list[Part], tuple[PlanStep, ...], list[At]]:
    """The kernels that steps call, these steps by their names, and the program of each call."""
    made: list[Part] = []
    names: dict[object, str] = {}
    programs: list[At] = []
    run = calls(unified.sample.plan)
    keys = [(step.workload, tuple(_bases(unified, step).items())) for step in run]
    for position, (step, key) in enumerate(zip(run, keys, strict=True)):
        programs.append(_reading_once(unified.program(position), dict(key[1])))
        if key in names:
            continue
        name = f"{len(names)}:{step.workload.partition(':')[0]}"
        names[key] = name
        made.append(part_of(name, programs[position], symbolic.programs[position]))
    given = iter(keys)
    steps = tuple(
        replace(
            s,
            workload=names[next(given)] if s.op == "call" else "",
            loop=replace(s.loop, trips=0) if s.loop else None,  # the plan has a size for it
        )
        for s in unified.sample.plan.steps
    )
    return made, steps, programs


def _reading_once(at: At, bases: Bases) -> At:
    return (lambda sizes: reading_once(at(sizes), bases)) if bases else at
