"""What a GPU has of a model for any size: WGSL kernels, and steps with attention as one call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from nnjit_studio.compiler.any_size.fused import attention_calls
from nnjit_studio.compiler.any_size.kernels.compiled import At, remembering
from nnjit_studio.compiler.any_size.kernels.wgsl import any_size_document
from nnjit_studio.compiler.any_size.unified import Unified
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.errors import CompileError, ModelError
from nnjit_studio.model import PlanStep
from nnjit_studio.model.size import Dim, Size
from nnjit_studio.records import GPU_TIERS, Kernel

_TOLD = 10
"""Kernels between two words of progress."""


@dataclass(frozen=True)
class Part:
    """A kernel to be compiled."""

    name: str
    at: At
    extents: list[Size]
    """Of its loops."""
    shapes: list[Size]


@dataclass(frozen=True)
class OnGpu:
    """Kernels of a GPU, and the steps that it runs in place of the plan's; empty where it has no
    kernels, or runs those."""

    kernels: tuple[Kernel, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    notes: tuple[str, ...] = ()


def part_of(name: str, at: At, *symbolic: Any) -> Part:
    """A kernel of programs with formulas in the place of numbers."""
    stages = tuple(stage for program in symbolic for stage in program.stages)
    axes = (axis for stage in stages for axis in stage.axes)
    extents = [a.extent for a in axes if isinstance(a.extent, Size)]
    buffers = tuple(b.shape for program in symbolic for b in program.buffers)
    return Part(name, at, extents or list(_sizes(stages)), list(_sizes(buffers)))


def on_gpu(
    unified: Unified,
    symbolic: Any,
    parts: Sequence[Part],
    steps: Sequence[PlanStep],
    dims: Sequence[Dim],
    example: Mapping[str, int],
    on_phase: Callable[[str], None],
) -> OnGpu:
    """Compile the kernels of a GPU.

    Parameters
    ----------
    symbolic
        The parts of ``unified`` with formulas.
    parts, steps
        The kernels of Wasm, and the steps that call them by name.
    example
        Sizes at hand.
    """
    run = [at for at, step in enumerate(steps) if step.op == "call"]
    mine, kernels, notes = list[PlanStep | None](steps), list[Kernel](), list[str]()
    made: dict[tuple[str, ...], str] = {}
    """Names of kernels by those of the calls in their places; empty where these stay."""
    on_phase("compiling WGSL kernels of attention")
    for fused in attention_calls(unified, dims):
        names = tuple(steps[run[at]].workload for at in fused.positions)
        if names not in made:
            name, made[names] = f"attention:{len(made)}", ""
            programs = [symbolic.programs[at] for at in fused.positions]
            try:
                kernels += _tiers(part_of(name, fused.program, *programs), dims, example)
                made[names] = name
            except ModelError as error:
                why = error.error.partition(": ")[2]
                notes.append(f"Attention is three kernels on WebGPU: {why}")
        if made[names]:
            *others, last = (run[at] for at in fused.positions)
            for at in others:
                mine[at] = None
            mine[last] = replace(steps[last], workload=made[names], args=fused.args)
    chosen = tuple(step for step in mine if step is not None)
    called = {step.workload for step in chosen}
    wanted = [part for part in parts if part.name in called]
    for number, part in enumerate(wanted):
        if number % _TOLD == 0:
            on_phase(f"compiling WGSL kernel {number + 1} of {len(wanted)}")
        try:
            kernels += _tiers(part, dims, example)
        except ModelError as error:
            why = error.error.partition(": ")[2]
            return OnGpu(notes=(f"The bundle has Wasm kernels alone: {why}",))
    return OnGpu(tuple(kernels), chosen if len(chosen) < len(steps) else (), tuple(notes))


def _tiers(part: Part, dims: Sequence[Dim], example: Mapping[str, int]) -> list[Kernel]:
    """A kernel of the plain tier, and of others where they have another text.

    Raises
    ------
    ModelError
        When it has none for all sizes.
    """
    plain, *others = GPU_TIERS
    at = remembering(part.at)
    given = part.name, at, part.extents, dims, part.shapes, example
    made = [any_size_document(*given)]
    for tier in others:
        # Where it has no text for all sizes, the plain tier does.
        with contextlib.suppress(CompileError, ModelError):
            program = at(example)
            if compile_wgsl(program, None, tier).data != compile_wgsl(program, None, plain).data:
                made.append(any_size_document(*given, tier))
    return made


def _sizes(tree: Any) -> Iterator[Size]:
    """Of the stages of a program: in extents, or in what an index adds."""
    if isinstance(tree, Size):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _sizes(part)
    elif is_dataclass(tree):
        for field in fields(tree):
            yield from _sizes(getattr(tree, field.name))
