"""A space about ten times the lite one: what the heuristics leave out, to check them by.

Nobody tunes with it. ``nnjit bench regret`` measures it, so that a rule which
throws away the best candidate is found out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import ORDERS, Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space.lite_space import build_lite_space, problem_of
from nnjit_studio.space.wasm import conv2d as conv2d_space
from nnjit_studio.space.wasm import dot as dot_space
from nnjit_studio.space.wasm.conv2d import CONV2D, ConvProblem, conv_problem
from nnjit_studio.space.wasm.dot import DOT_KINDS, DotProblem, dot_problem
from nnjit_studio.space.wasm.heuristics import (
    LANES,
    MIN_R1,
    R0_CHOICES,
    Problem,
    function_size,
    packing,
    powers_of_two,
    problem_size,
    register_use,
)
from nnjit_studio.space.webgpu.matmul import gpu_candidates
from nnjit_studio.space.webgpu.spaces import gpu_space_of
from nnjit_studio.space.webgpu.wide import gpu_wide_candidates

X0_CHOICES = (4, 8, 12, 16, 20, 24, 32)
Y0_CHOICES = tuple(range(1, 17))
REGISTER_RANGE = (0.3, 2.0)
"""Of Heuristic 4: tiles that leave most registers idle, up to such as spill half."""


def build_wide_space(
    workload: Workload, device: DeviceProfile, packable: bool, times: int = 10
) -> tuple[AnyCandidate, ...]:
    """The lite space, then others that compile, together ``times`` as many where there are.

    Heuristics 2, 3 and 4 are relaxed (any multiple of 4 columns, any number of
    rows, any block of the reduction, tiles from three tenths to twice the
    registers) and settings vary together. Of more, those whose text has the
    smallest sha256 stay: the same for every run, and no rule's favourites.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype.
    """
    if device.gpu is not None:
        space = gpu_space_of(workload, device.gpu)
        if space.find is not gpu_candidates:
            raise UserError(
                f"There is no wider space of {workload.name} on a GPU.",
                "Those of tiled products and convolutions are.",
            )
        return gpu_wide_candidates(space.problem, times)
    entries = build_lite_space(workload, device, packable).entries
    lite = [e.candidate for e in entries if isinstance(e.candidate, Candidate)]
    if workload.kind == CONV2D:
        others = set(_conv2d_grid(conv_problem(workload, device)))
    elif workload.kind in DOT_KINDS.values():
        others = set(_dot_grid(dot_problem(workload, device)))
    else:
        others = set(_grid(problem_of(workload, device, packable)))
    mixed = sorted(others - set(lite), key=lambda c: hashlib.sha256(str(c).encode()).digest())
    return (*lite, *mixed[: (times - 1) * len(lite)])


def _grid(problem: Problem) -> Iterator[Candidate]:
    if problem.storage.whole_depth:
        depths = [problem.k]
    else:
        depths = [*powers_of_two(MIN_R1, problem.k), problem.k]
    rules = (problem_size, function_size, packing)
    for x0, y0 in product(X0_CHOICES, Y0_CHOICES):
        if not _fills(x0 * problem.storage.sums, y0, problem.device, problem):
            continue
        for r0, r1, order in product(R0_CHOICES, depths, ORDERS):
            c = Candidate(x0, y0, r0, x0, y0, r1, order, problem.packable)
            if all(rule(c, problem)[0] for rule in rules):
                yield c


def _fills(x0: int, y0: int, device: DeviceProfile, problem: Problem | ConvProblem) -> bool:
    low, high = (share * device.vector_registers * LANES for share in REGISTER_RANGE)
    # A problem too small to fill the registers has the lower end relaxed here too.
    return min(low, problem.register_low * low) <= register_use(x0, y0) <= high


def _conv2d_grid(problem: ConvProblem) -> Iterator[Candidate]:
    rows = problem.kernel[0]
    blocks = {math.ceil(problem.out_height / count) for count in (1, 2, 4, 8, 16)}
    first = Candidate(4, 1, rows, 1, 1, problem.depth, conv2d_space.BASE_ORDER, False)
    if problem.depthwise:
        blocks = {problem.out_height}
    for x0, y0 in product(X0_CHOICES, Y0_CHOICES):
        if not _fills(x0, y0, problem.device, problem):
            continue
        for r0, x1, order in product(sorted({1, rows, 2 * rows, 4 * rows}), sorted(blocks), ORDERS):
            c = replace(first, x0=x0, y0=y0, r0=r0, x1=x1, y1=y0, order=order)
            rules = (
                conv2d_space.problem_size,
                conv2d_space.function_size,
                conv2d_space.unrolling,
            )
            if all(rule(c, problem)[0] for rule in rules):
                yield c


def _dot_grid(problem: DotProblem) -> Iterator[Candidate]:
    low, high = (share * problem.device.vector_registers for share in REGISTER_RANGE)
    low = min(low, problem.register_low * low)
    for x0, y0 in product((*range(1, 9), 12, 16), Y0_CHOICES):
        if not low <= dot_space.vectors(x0, y0) <= high:
            continue
        blocks = problem.blocks(x0, y0)
        for r0, (x1, y1), order in product(R0_CHOICES, blocks, ORDERS):
            c = Candidate(x0, y0, r0, x1, y1, problem.k, order, False)
            rules = (dot_space.problem_size, dot_space.function_size)
            if all(rule(c, problem)[0] for rule in rules):
                yield c
