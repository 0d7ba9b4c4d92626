"""Settings of a WGSL kernel for all sizes: one guess that no usual size is far from its best with.

A template's guess suits one size: at 2,000 rows a product has workgroups enough, at 100 the same
tiles leave most cores of a GPU idle, where a split of its reduction would not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nnjit_studio.compiler.any_size.kernels.compiled import At
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import match
from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.model.size import Dim
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.registry import gpu_space_of
from nnjit_studio.space.webgpu.matmul import ANY_GPU
from nnjit_studio.space.webgpu.problem import GpuProblem

_USUAL = (16, 32, 64, 128, 256, 512)
"""Steps of a dimension, while others are as they are at hand."""


def usual_guesses(
    at: At, dims: Sequence[Dim], example: Mapping[str, int], large: Program
) -> list[GpuCandidate]:
    """Settings to try, one after the other, until one has a text for all sizes.

    The first is, of the guesses at usual sizes, the one whose expected time is least above the
    best of each.

    Parameters
    ----------
    at
        The program at sizes.
    example
        Sizes at hand.
    large
        The program at sizes to which it is compiled, which a template takes; usual sizes at which
        it has kernels of another family are not looked at.
    """
    guess, problem = _guess(large)
    assert guess is not None
    problems: dict[tuple[float, ...], GpuProblem] = {}
    guesses: dict[GpuCandidate, None] = {}
    for sizes in _usual(dims, example):
        try:
            other, usual = _guess(at(sizes))
        except ModelError:  # it is another kernel where the sizes at hand are very small
            continue
        if other and problem and usual and usual.family == problem.family:
            guesses[other] = None
            problems[usual.batch, usual.m, usual.k, usual.n] = usual

    def above(c: GpuCandidate) -> float:
        return sum(math.log(p.cost(c)) for p in problems.values())

    found = [min(guesses, key=above)] if guesses else []
    return list(dict.fromkeys((*found, guess, replace(guess, split=1))))


def _guess(program: Program) -> tuple[GpuCandidate | None, GpuProblem | None]:
    """The guess of a program's template, and what its cost model looks at."""
    found = match(program)
    if not found or not found.template.wgsl:
        return None, None
    guess = found.template.wgsl.guess(found.subject)
    try:
        return guess, gpu_space_of(workload_for(program, found.subject), ANY_GPU).problem
    except UserError:
        return guess, None


def _usual(dims: Sequence[Dim], example: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    for dim in dims:
        for steps in _USUAL:
            if dim.takes(n := steps * dim.step):
                yield {**example, dim.name: n}
