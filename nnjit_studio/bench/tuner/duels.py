"""``nnjit bench duels``: how often the evaluator is right, where the truth is known."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_on
from nnjit_studio.bench.report import Report, Table
from nnjit_studio.bench.tuner.mutants import bench_mutants, kernel_of, space_of
from nnjit_studio.bench.tuner.program_mutants import make_slower
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Fixture, Kernel, MeasurePolicy
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.outcomes import COMPARED
from nnjit_studio.tuner.evaluator import duel
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.swap_policy import SwapPolicy, speedup_interval
from nnjit_studio.workbench import Workbench

SPECS = (
    "matmul:384x768x768:f32",
    "matmul:64x64x64:f32",
    "batch_matmul:12x64x64x64:f32",
    "matmul:128x256x256:f32+bias+gelu",
)
BLOCK = 25
"""Duels in a row for one workload: another one sends a fixture to the page."""
SLOWER = 1.05
"""Time of the slowed kernel over the original's."""
CALIBRATED = 0.004
"""How near to that it has to come."""
LONG = MeasurePolicy(pairs=32, min_sample_ms=8.0, warmup_ms=90.0, max_ms=30_000.0)
TURN_NS = 0.4
"""First guess at a turn of the idle loop."""


@dataclass(frozen=True)
class Arena:
    """A workload with the kernel that fights itself, and its slowed twin."""

    workload: Workload
    program: Program
    candidate: Candidate
    tier: str
    fixture: Fixture
    original: Artifact


@dataclass(frozen=True)
class Fought:
    workload: str
    state: str
    speedup: float
    pairs: int
    seconds: float


def bench_duels(
    bench: Workbench,
    aa: int,
    slower: int,
    faster: int,
    mutants: int,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Duels of a kernel with itself, with one made 5 % slower in both roles, and wrong kernels.

    Every challenger has bytes of its own, by a custom section: the engine
    compiles and warms each as it would a new candidate.

    Raises
    ------
    CompileError, PageError
        When a right kernel does not compile or the page is lost.
    """
    before = load_average()
    device, runner = bench.page.connect(), bench.page.runner
    policy, thresholds = MeasurePolicy(), SwapPolicy()
    result: dict[str, Any] = {
        "ok": True,
        "threads": device.threads,
        "policy": {**asdict(policy), **asdict(thresholds)},
    }
    if aa or slower or faster:
        arenas = [make_arena(spec, device) for spec in SPECS]
        names = itertools.count()
        if aa:
            result["aa"] = _aa(runner, arenas, aa, names, note)
        if slower or faster:
            slow = [_slowed(runner, arena, note) for arena in arenas]
            result["slowed"] = [row for _, row in slow]
            twins = [artifact for artifact, _ in slow]
            for role, count in (("slower", slower), ("faster", faster)):
                if count:
                    result[role] = _roles(runner, arenas, twins, role, count, names, note)
    if mutants:
        result["mutants"] = bench_mutants(runner, device, mutants, note)
    return result | measured_on(device, before, bench.compiler.version)


def make_arena(spec: str, device: DeviceProfile) -> Arena:
    """The workload with the first candidate of its lite space."""
    program, workload, candidates = space_of(spec, device)
    candidate, tier = candidates[0], device.best_tier
    fixture = make_fixture(workload.key, program)
    original = compile_program(program, candidate, tier)
    return Arena(workload, program, candidate, tier, fixture, original)


def _aa(
    runner: Runner,
    arenas: Sequence[Arena],
    count: int,
    names: Iterator[int],
    note: Callable[[str], None],
) -> dict[str, Any]:
    fought = []
    for arena, duels in _blocks(arenas, count):
        runner.set_fixture(arena.fixture)
        incumbent = _kernel(arena, arena.original, names)
        for _ in range(duels):
            fought.append(_fight(runner, arena, _kernel(arena, arena.original, names), incumbent))
        swaps = sum(f.state == "won" for f in fought)
        note(f"{len(fought)} duels of a kernel with itself: {swaps} false swaps")
    swaps = sum(f.state == "won" for f in fought)
    undecided = sum(f.state not in COMPARED for f in fought)
    if undecided == len(fought):
        raise CompileError("No duel of a kernel with itself could be fought.", "Run it again.")
    return {
        "duels": len(fought),
        "undecided": undecided,
        "false_swaps": swaps,
        "share": swaps / (len(fought) - undecided),
        "upper_95": upper_bound(swaps, len(fought) - undecided),
        "rows": _rows(fought),
    }


def _roles(
    runner: Runner,
    arenas: Sequence[Arena],
    twins: Sequence[Artifact],
    role: str,
    count: int,
    names: Iterator[int],
    note: Callable[[str], None],
) -> dict[str, Any]:
    """``slower``: the slowed kernel challenges and must not win; ``faster``: the original must."""
    fought = []
    twin_of = dict(zip((a.workload.key for a in arenas), twins, strict=True))
    for arena, duels in _blocks(arenas, count):
        runner.set_fixture(arena.fixture)
        twin = twin_of[arena.workload.key]
        ours, theirs = (twin, arena.original) if role == "slower" else (arena.original, twin)
        incumbent = _kernel(arena, theirs, names)
        for _ in range(duels):
            fought.append(_fight(runner, arena, _kernel(arena, ours, names), incumbent))
        right = sum(_is_right(f, role) for f in fought)
        note(f"{len(fought)} duels with a {role} challenger: {right} right")
    right = sum(_is_right(f, role) for f in fought)
    return {
        "duels": len(fought),
        "correct": right,
        "share": right / len(fought),
        "rows": _rows(fought),
    }


def _is_right(fought: Fought, role: str) -> bool:
    return (fought.state == "won") == (role == "faster") and fought.state in COMPARED


def _blocks(arenas: Sequence[Arena], count: int) -> Iterator[tuple[Arena, int]]:
    """Turns of :data:`BLOCK` duels, so that each workload meets each hour of the machine."""
    block = max(1, min(BLOCK, math.ceil(count / len(arenas))))
    for arena in itertools.cycle(arenas):
        if count <= 0:
            return
        yield arena, min(block, count)
        count -= block


def _fight(runner: Runner, arena: Arena, challenger: Kernel, incumbent: Kernel) -> Fought:
    start = time.monotonic()
    result, verdict = duel(
        runner, challenger, incumbent, arena.workload.flops, None, MeasurePolicy(), SwapPolicy()
    )
    seconds = time.monotonic() - start
    pairs = min(len(result.samples_ms), len(result.incumbent_ms))
    return Fought(arena.workload.name, verdict.state, verdict.speedup, pairs, seconds)


def _slowed(
    runner: Runner, arena: Arena, note: Callable[[str], None]
) -> tuple[Artifact, dict[str, Any]]:
    """A twin that takes 5 % longer, and how long it really takes, by a long measurement."""
    runner.set_fixture(arena.fixture)
    original = kernel_of(arena.workload, arena.candidate, arena.tier, arena.original)
    alone = runner.measure(original, None, replace(LONG, pairs=4))
    if alone.error or not alone.samples_ms:
        raise CompileError(f"{arena.workload.name} cannot be measured: {alone.error}.")
    own_ns = statistics.median(alone.samples_ms) * 1e6
    turns = max(1, round((SLOWER - 1) * own_ns / TURN_NS / arena.original.parallel_extent))
    for _ in range(5):
        twin = make_slower(arena.program, arena.candidate, arena.tier, turns)
        kernel = kernel_of(arena.workload, arena.candidate, arena.tier, twin)
        result = runner.measure(kernel, original, LONG)
        if result.error or not result.samples_ms:
            raise CompileError(f"The slowed {arena.workload.name} fails: {result.error}.")
        # The fastest samples are those that nothing else disturbed.
        near = min(result.samples_ms) / min(result.incumbent_ms)
        if abs(near - SLOWER) <= CALIBRATED:
            break
        # A busy machine can show no slow-down at all: no more than fourfold at once.
        turns = max(1, round(turns * min(4.0, (SLOWER - 1) / max(near - 1, 0.01))))
    ratio, low, high = speedup_interval(result.incumbent_ms, result.samples_ms, SwapPolicy())
    note(f"{arena.workload.name}: slowed to {ratio:.3f}x its time ({low:.3f}..{high:.3f})")
    own_ms = statistics.median(result.incumbent_ms)
    row = {
        "workload": arena.workload.name,
        "ms": own_ms,
        "time": ratio,
        "low": low,
        "high": high,
        "fastest": near,
        "calibrated": abs(near - SLOWER) <= CALIBRATED,
    }
    return twin, row


def _kernel(arena: Arena, artifact: Artifact, names: Iterator[int]) -> Kernel:
    """A kernel with bytes of its own: a custom section, which no engine runs, numbers it."""
    number = next(names).to_bytes(4, "little")
    payload = b"\x05nonce" + number
    data = artifact.data + bytes((0, len(payload))) + payload
    return kernel_of(arena.workload, arena.candidate, arena.tier, artifact, data)


def _rows(fought: Sequence[Fought]) -> list[dict[str, Any]]:
    rows = []
    for name in dict.fromkeys(f.workload for f in fought):
        mine = [f for f in fought if f.workload == name]
        rows.append(
            {
                "workload": name,
                "duels": len(mine),
                "won": sum(f.state == "won" for f in mine),
                "undecided": sum(f.state not in COMPARED for f in mine),
                "speedup": statistics.median(f.speedup for f in mine),
                "pairs": statistics.mean(f.pairs for f in mine),
                "seconds": statistics.median(f.seconds for f in mine),
            }
        )
    return rows


def upper_bound(events: int, trials: int) -> float:
    """Upper end of the one-sided exact 95 % interval of a share.

    C. J. Clopper, E. S. Pearson, "The Use of Confidence or Fiducial Limits",
    Biometrika 26(4), 1934.
    """
    from scipy.stats import binomtest

    found = binomtest(events, trials, alternative="less").proportion_ci(0.95, "exact")
    return float(found.high)


def sentences(result: Mapping[str, Any]) -> list[str]:
    """What each part came to."""
    said = []
    if aa := result.get("aa"):
        said.append(
            f"{aa['duels']} duels of a kernel with itself: {aa['false_swaps']} false swaps "
            f"({aa['share']:.2%}; below {aa['upper_95']:.2%} at 95 % confidence)."
            + (f" {aa['undecided']} failed and were not counted." if aa["undecided"] else "")
        )
    for row in result.get("slowed", ()):
        said.append(
            f"{row['workload']} ({row['ms']:.3g} ms) was slowed to {row['time']:.3f}x its time "
            f"({row['low']:.3f}..{row['high']:.3f}; fastest samples {row['fastest']:.3f}x)"
            + ("." if row["calibrated"] else ": not 5 %, the machine was too busy; repeat it.")
        )
    for role in ("slower", "faster"):
        if part := result.get(role):
            said.append(
                f"{part['duels']} duels with a 5 % {role} challenger: "
                f"{part['share']:.1%} decided right."
            )
    if mutants := result.get("mutants"):
        caught = ", ".join(f"{n} by {how}" for how, n in mutants["caught"].items())
        said.append(
            f"{mutants['mutants']} wrong kernels: {len(mutants['survivors'])} accepted; "
            f"caught {caught}; {mutants['equivalent']} more were proven equivalent and not counted."
        )
        said.append(f"{mutants['correct']} right kernels: {len(mutants['rejected'])} rejected.")
    return said


def duels_report(result: Mapping[str, Any]) -> Report:
    head = ["duels", "workload", "count", "won", "median speed-up", "pairs", "s each"]
    rows = [
        [
            title,
            row["workload"],
            str(row["duels"]),
            str(row["won"]),
            f"{row['speedup']:.3f}x",
            f"{row['pairs']:.1f}",
            f"{row['seconds']:.2f}",
        ]
        for part, title in _PARTS.items()
        for row in result.get(part, {}).get("rows", ())
    ]
    about = f"Target {result['target']}, {result['threads']} threads."
    said = "\n".join(f"- {sentence}" for sentence in sentences(result))
    parts = (Table(head, rows) if rows else "", said)
    return Report(result, "duels where the truth is known", about, parts)


_PARTS = {"aa": "with itself", "slower": "5 % slower", "faster": "5 % faster"}
