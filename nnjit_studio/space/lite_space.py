"""The lite space of a workload: dozens of candidates, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import ORDERS, Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate, GpuCandidate
from nnjit_studio.records.quantised import FLOAT32, STORAGES
from nnjit_studio.space.wasm import conv2d as conv2d_space
from nnjit_studio.space.wasm import dot as dot_space
from nnjit_studio.space.wasm.conv2d import (
    CONV2D,
    ConvProblem,
    conv2d_candidates,
    conv2d_naive_size,
    conv_problem,
)
from nnjit_studio.space.wasm.dot import DOT_KINDS, DotProblem, dot_candidates, dot_problem
from nnjit_studio.space.wasm.heuristics import (
    ELEMENT_BYTES,
    LANES,
    MIN_TILES,
    R0_CHOICES,
    REGISTER_LOW_STEPS,
    RULES,
    TILE_RULES,
    X0_CHOICES,
    Y0_CHOICES,
    Problem,
    block_bytes,
    intensity,
    l1_cache,
    one_at_a_time,
    register_use,
    registers,
    splits,
    variations,
)
from nnjit_studio.space.webgpu.matmul import GpuProblem
from nnjit_studio.space.webgpu.spaces import GpuSpace, gpu_space_of

BLOCKS_PER_CORE = 1
"""``Block_core`` on Wasm (Table 1)."""

ON_OFF_PRIMITIVES = ("cache_write", "unroll", "vectorize")


@dataclass(frozen=True)
class Verdict:
    """One rule's answer on one candidate, with its numbers in ``text``."""

    rule: str
    ok: bool
    text: str


@dataclass(frozen=True)
class Usage:
    """Use of hardware by Table 1: elements of registers of a thread, bytes of L1 of a block.

    On a GPU bytes of workgroup memory; ``blocks_per_core`` is ``Block_core``.
    """

    registers: int
    l1_bytes: int
    blocks_per_core: int = BLOCKS_PER_CORE


@dataclass(frozen=True)
class SpaceEntry:
    """A candidate of the space.

    ``varies`` names the setting that leaves the first choice for the tile:
    ``r0``, ``r1``, ``order`` or nothing.
    """

    candidate: AnyCandidate
    usage: Usage
    reason: str
    varies: str = ""


@dataclass(frozen=True)
class LiteSpace:
    """Candidates in order of evaluation, and the size of the space they stand for."""

    workload: Workload
    entries: tuple[SpaceEntry, ...]
    naive_size: int

    @property
    def wasm_candidates(self) -> list[Candidate]:
        """The candidates, for what deals with Wasm kernels alone; none of a GPU's space."""
        return [e.candidate for e in self.entries if isinstance(e.candidate, Candidate)]


def build_lite_space(workload: Workload, device: DeviceProfile, packable: bool) -> LiteSpace:
    """All candidates that every rule of :mod:`heuristics` accepts, best guess first.

    The order is that of the paper (section 5.2), blocks per core, which ties
    on Wasm; then every tile with its first choice of r0, r1 and order before
    the variations; then the intensity of the tile and how well it fills the
    registers.

    Parameters
    ----------
    workload
        ``matmul`` (M, K, N) or ``batch_matmul`` (batch, M, K, N), float32; or a
        kind with rules of its own: ``conv2d``, ``matmul_dot``, ``batch_matmul_dot``.
    device
        Registers and cache sizes in bytes.
    packable
        Whether B is a weight that may be packed into panels.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype.
    """
    if device.gpu is not None:
        return _gpu_space(workload, gpu_space_of(workload, device.gpu))
    if workload.kind == CONV2D:
        return _conv2d_space(workload, device)
    if workload.kind in DOT_KINDS.values():
        return _dot_space(workload, device)
    problem = problem_of(workload, device, packable)
    accepted = [c for c in _grid(problem) if all(rule(c, problem)[0] for rule in RULES)]
    entries = sorted((_entry(c, problem) for c in accepted), key=lambda e: _rank(e, problem))
    return LiteSpace(workload, tuple(entries), naive_size(workload))


def explain(
    candidate: AnyCandidate, workload: Workload, device: DeviceProfile, packable: bool
) -> list[Verdict]:
    """Why a setting is in the lite space (every verdict is ok) or out.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype, or the candidate is one of
        another backend.
    """
    if device.gpu is not None:
        if not isinstance(candidate, GpuCandidate):
            raise _foreign(candidate, "Wasm kernels")
        return _gpu_verdicts(candidate, gpu_space_of(workload, device.gpu))
    if isinstance(candidate, GpuCandidate):
        raise _foreign(candidate, "WGSL kernels")
    if workload.kind == CONV2D:
        return _conv2d_verdicts(candidate, conv_problem(workload, device))
    if workload.kind in DOT_KINDS.values():
        return _dot_verdicts(candidate, dot_problem(workload, device))
    problem = problem_of(workload, device, packable)
    answers = ((rule.__name__, rule(candidate, problem)) for rule in RULES)
    return [Verdict(name, ok, text) for name, (ok, text) in answers]


def usage_of(
    candidate: AnyCandidate, workload: Workload, device: DeviceProfile, packable: bool
) -> Usage:
    """What a setting uses, in the lite space or not.

    Raises
    ------
    UserError
        As :func:`explain`.
    """
    if device.gpu is not None:
        if not isinstance(candidate, GpuCandidate):
            raise _foreign(candidate, "Wasm kernels")
        return _gpu_usage(candidate, gpu_space_of(workload, device.gpu).problem)
    if isinstance(candidate, GpuCandidate):
        raise _foreign(candidate, "WGSL kernels")
    if workload.kind == CONV2D:
        return _conv2d_usage(candidate, conv_problem(workload, device))
    if workload.kind in DOT_KINDS.values():
        return _dot_usage(candidate, dot_problem(workload, device))
    return _usage(candidate, problem_of(workload, device, packable))


def _usage(c: Candidate, problem: Problem) -> Usage:
    storage = problem.storage
    l1_bytes = block_bytes(c.x1, c.y1, c.r1) // ELEMENT_BYTES * storage.element_bytes
    return Usage(register_use(c.x0 * storage.sums, c.y0), l1_bytes)


def _conv2d_usage(c: Candidate, problem: ConvProblem) -> Usage:
    return Usage(register_use(c.x0, c.y0), problem.staged_bytes(c.x1))


def _dot_usage(c: Candidate, problem: DotProblem) -> Usage:
    elements = LANES * dot_space.vectors(c.x0, c.y0)
    return Usage(elements, dot_space.block_bytes(c, problem.k))


def _gpu_usage(c: GpuCandidate, problem: GpuProblem) -> Usage:
    return Usage(problem.registers(c), problem.shared_bytes(c), problem.blocks_per_core(c))


def _gpu_space(workload: Workload, space: GpuSpace) -> LiteSpace:
    problem, entries = space.problem, []
    for c in space.find(problem):
        reason = "; ".join(rule(c, problem)[1] for rule in space.told)
        varies = "".join(space.varies(c, problem))
        entries.append(SpaceEntry(c, _gpu_usage(c, problem), reason, varies))
    return LiteSpace(workload, tuple(entries), naive_size(workload))


def _gpu_verdicts(candidate: GpuCandidate, space: GpuSpace) -> list[Verdict]:
    answers = ((rule.__name__, rule(candidate, space.problem)) for rule in space.rules)
    return [Verdict(name, ok, text) for name, (ok, text) in answers]


def _foreign(candidate: AnyCandidate, what: str) -> UserError:
    return UserError(
        f"{candidate} is a candidate of {what}.", "`nnjit space` lists those of this backend."
    )


def _conv2d_space(workload: Workload, device: DeviceProfile) -> LiteSpace:
    problem = conv_problem(workload, device)
    entries = []
    for c in conv2d_candidates(problem):
        usage = _conv2d_usage(c, problem)
        told = (conv2d_space.registers, conv2d_space.l2_cache, conv2d_space.one_at_a_time)
        reason = "; ".join(rule(c, problem)[1] for rule in told)
        entries.append(SpaceEntry(c, usage, reason, "".join(conv2d_space.variations(c, problem))))
    return LiteSpace(workload, tuple(entries), conv2d_naive_size(workload))


def _conv2d_verdicts(candidate: Candidate, problem: ConvProblem) -> list[Verdict]:
    answers = ((rule.__name__, rule(candidate, problem)) for rule in conv2d_space.RULES)
    return [Verdict(name, ok, text) for name, (ok, text) in answers]


def _dot_space(workload: Workload, device: DeviceProfile) -> LiteSpace:
    problem = dot_problem(workload, device)
    entries = []
    for c in dot_candidates(problem):
        told = (dot_space.registers, dot_space.l1_cache, dot_space.one_at_a_time)
        reason = "; ".join(rule(c, problem)[1] for rule in told)
        varies = "".join(dot_space.variations(c, problem))
        entries.append(SpaceEntry(c, _dot_usage(c, problem), reason, varies))
    return LiteSpace(workload, tuple(entries), naive_size(workload))


def _dot_verdicts(candidate: Candidate, problem: DotProblem) -> list[Verdict]:
    answers = ((rule.__name__, rule(candidate, problem)) for rule in dot_space.RULES)
    return [Verdict(name, ok, text) for name, (ok, text) in answers]


def naive_size(workload: Workload) -> int:
    """Size of the space before any reduction, counted as AutoTVM does for Wasm.

    M and N are split into three, the reduction K into two, times on and off of
    three annotations. For the paper's 384x768x768 that is 108 * 135 * 18 * 8 =
    2,099,520, the figure of Table 6. (Its figure for BatchMatMul, 2,694,384,
    follows from no rule that the paper states; here batches are split into two,
    which makes 2,322,432.)
    """
    if workload.kind == CONV2D:
        return conv2d_naive_size(workload)
    batch, m, k, n = (1, *workload.dims)[-4:]
    loops = splits(m, 3) * splits(n, 3) * splits(k, 2) * splits(batch, 2)
    return loops << len(ON_OFF_PRIMITIVES)


def problem_of(workload: Workload, device: DeviceProfile, packable: bool) -> Problem:
    """Extents, and the tiles left by the rules on tiles, most intense first.

    A problem too small for :data:`MIN_TILES` tiles that fill the registers
    gets the lower end of Heuristic 4 relaxed step by step; a row vector
    (M = 1) is such a problem.
    """
    ranks = {"matmul": 3, "batch_matmul": 4, **dict.fromkeys(STORAGES, 3)}
    storage = STORAGES.get(workload.kind, FLOAT32)
    readable = workload.dtype == "f32" or storage != FLOAT32
    if len(workload.dims) != ranks.get(workload.kind) or not readable:
        raise UserError(
            f"There is no lite space for the workload {workload.name}.",
            "Lite spaces exist for matmul:MxKxN:f32 and batch_matmul:BxMxKxN:f32.",
        )
    batch, m, k, n = (1, *workload.dims)[-4:]
    problem = Problem(batch, m, k, n, device, packable, storage=storage)
    for low in REGISTER_LOW_STEPS:
        problem = replace(problem, register_low=low)
        tiles = [tile for tile in product(X0_CHOICES, Y0_CHOICES) if _tile_fits(tile, problem)]
        if len(tiles) >= MIN_TILES:
            break
    tiles.sort(key=lambda tile: _tile_rank(tile, problem))
    return replace(problem, tiles=tuple(tiles))


def _tile_fits(tile: tuple[int, int], problem: Problem) -> bool:
    x0, y0 = tile
    probe = Candidate(x0, y0, problem.base_r0, x0, y0, problem.k, pack=problem.packable)
    return all(rule(probe, problem)[0] for rule in TILE_RULES)


def _tile_rank(tile: tuple[int, int], problem: Problem) -> tuple[float, ...]:
    idle = abs(register_use(tile[0] * problem.storage.sums, tile[1]) - problem.register_elements)
    return (-intensity(*tile), idle, *tile)


def _grid(problem: Problem) -> Iterator[Candidate]:
    depths = {d for tile in problem.tiles for d in problem.depths(*tile)}
    for (x0, y0), r0, r1, order in product(problem.tiles, R0_CHOICES, sorted(depths), ORDERS):
        yield Candidate(x0, y0, r0, x0, y0, r1, order, problem.packable)


def _entry(c: Candidate, problem: Problem) -> SpaceEntry:
    reason = "; ".join(rule(c, problem)[1] for rule in (registers, l1_cache, one_at_a_time))
    return SpaceEntry(c, _usage(c, problem), reason, "".join(variations(c, problem)))


def _rank(entry: SpaceEntry, problem: Problem) -> tuple[object, ...]:
    c = entry.candidate
    assert isinstance(c, Candidate)
    return (
        -entry.usage.blocks_per_core,
        entry.varies != "",
        *_tile_rank((c.x0, c.y0), problem),
        entry.varies,
        c,
    )
