"""What a GPU has of a model for any size: WGSL kernels, and steps with attention as one call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnjit_studio.compiler.any_size.fused import Attentions, Fused, in_one
from nnjit_studio.compiler.any_size.kernels.part import Part, part_of
from nnjit_studio.compiler.any_size.kernels.samples import remembering
from nnjit_studio.compiler.any_size.kernels.wgsl import any_size_document
from nnjit_studio.compiler.any_size.refusal import reason
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.errors import CompileError, ModelError
from nnjit_studio.model import PlanStep
from nnjit_studio.model.size import Dim
from nnjit_studio.records import GPU_TIERS, Kernel

_TOLD = 10
"""Kernels between two words of progress."""


@dataclass(frozen=True)
class OnGpu:
    """Kernels of a GPU, and the steps that it runs; empty where it has no kernels."""

    kernels: tuple[Kernel, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    notes: tuple[str, ...] = ()


def on_gpu(
    symbolic: Any,
    parts: Sequence[Part],
    steps: Sequence[PlanStep],
    found: Attentions,
    dims: Sequence[Dim],
    example: Mapping[str, int],
    on_phase: Callable[[str], None],
) -> OnGpu:
    """Compile the kernels of a GPU.

    Parameters
    ----------
    symbolic
        The parts of the unified model with formulas.
    parts, steps
        All kernels, and the steps that call them by name.
    found
        What may be one call of these.
    example
        Sizes at hand.
    """
    kernels, notes, taken = list[Kernel](), list[str](), dict[str, Sequence[Fused]]()
    on_phase("compiling WGSL kernels of attention")
    for name, calls in found.items():
        try:
            kernels += _tiers(attention_part(name, calls[0], symbolic), dims, example)
            taken[name] = calls
        except ModelError as error:
            notes.append(f"Attention is three kernels on WebGPU: {reason(error)}")
    chosen = in_one(steps, taken)
    called = {step.workload for step in chosen}
    wanted = [part for part in parts if part.name in called]
    for number, part in enumerate(wanted):
        if number % _TOLD == 0:
            on_phase(f"compiling WGSL kernel {number + 1} of {len(wanted)}")
        try:
            kernels += _tiers(part, dims, example)
        except ModelError as error:
            return OnGpu(notes=(f"The bundle has Wasm kernels alone: {reason(error)}",))
    return OnGpu(tuple(kernels), chosen, tuple(notes))


def attention_part(name: str, fused: Fused, symbolic: Any) -> Part:
    """The kernel of calls that are one."""
    return part_of(name, fused.program, *(symbolic.programs[at] for at in fused.positions))


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
