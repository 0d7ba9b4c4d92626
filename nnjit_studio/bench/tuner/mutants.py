"""Wrong kernels on purpose: whether gate 1 of a swap notices each, and spares the right ones."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from nnjit_studio.bench.tuner.program_mutants import make_mutant
from nnjit_studio.bench.tuner.row_programs import layernorm_program, softmax_program
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.fixture import SEED, make_fixture
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.subject import packed_weight
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.errors import BugError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Kernel, MeasurePolicy, RunResult
from nnjit_studio.records.candidate import Candidate, settings_of
from nnjit_studio.space import build_lite_space
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.swap_policy import Verdict, decide

SPECS = (
    "matmul:37x48x50:f32",
    "matmul:41x64x36:f32+bias+gelu",
    "matmul:33x40x64:f32+bias+residual",
    "matmul_var:24x33x40:f32+residual",
    "batch_matmul:3x17x20x22:f32",
    "conv2d:1x8x13x13x12x3x3x1x1x1x1:f32+bias+relu",
    "conv2d:1x8x14x14x16x1x1x1x0x1x1:f32",
    "conv2d:1x16x13x13x16x3x3x1x1x1x16:f32",
)
"""Small, and with tails in every dimension."""
CHECK = MeasurePolicy(
    pairs=1, min_sample_ms=0.05, min_quanta=1, warmup_ms=0, max_ms=200, digest=True
)
MOST_EQUIVALENT = 10
"""Times the mutants asked for: more means that the outputs say nothing."""
MORE_SEEDS = tuple(SEED + i for i in range(1, 5))
"""Of independent inputs, on which an equivalent mutant has to agree bit by bit."""


@dataclass(frozen=True)
class Victim:
    """A workload with the settings that its kernels are made from; None is the default."""

    workload: Workload
    program: Program
    candidates: tuple[Candidate | None, ...]


@dataclass
class Tally:
    """What became of the mutants and of the right kernels."""

    mutants: int = 0
    caught: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    workloads: Counter[str] = field(default_factory=Counter)
    equivalent: int = 0
    survivors: list[dict[str, Any]] = field(default_factory=list)
    correct: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "mutants": self.mutants,
            "caught": dict(self.caught),
            "equivalent": self.equivalent,
            "survivors": self.survivors,
            "kinds": dict(sorted(self.kinds.items())),
            "workloads": dict(self.workloads),
            "correct": self.correct,
            "rejected": self.rejected,
        }


def victims(device: DeviceProfile) -> Iterator[Victim]:
    """Matmuls, convolutions and epilogues with their lite spaces; rows by the default schedule."""
    for spec in SPECS:
        program, workload, candidates = space_of(spec, device)
        yield Victim(workload, program, (None, *candidates))
    for program in (softmax_program(48, 21), layernorm_program(7, 50)):
        yield Victim(workload_for(program, None), program, (None,))


def space_of(spec: str, device: DeviceProfile) -> tuple[Program, Workload, list[Candidate]]:
    """A workload by its spelling, and the lite space that it has on a device."""
    program = program_for(spec)
    subject = subject_of(program)
    workload = workload_for(program, subject)
    space = build_lite_space(workload, device, packed_weight(subject) is not None)
    return program, workload, list(space.wasm_candidates)


def bench_mutants(
    runner: Runner,
    device: DeviceProfile,
    count: int,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Judge ``count`` wrong kernels in the page, and after each a right one.

    A mutant that gate 1 accepts is excluded only when it is equivalent: on the
    inputs of five seeds its outputs are the right kernel's, bit by bit, and
    pass the float64 check. All others that are accepted are survivors.
    """
    tally = Tally()
    rng = random.Random(1)
    found = list(victims(device))
    for i, victim in enumerate(found):
        until = count * (i + 1) // len(found)
        _judge(victim, until, runner, device, rng, tally)
        note(
            f"{victim.workload.name}: {tally.mutants} mutants, {len(tally.survivors)} survive; "
            f"{tally.correct} right kernels, {len(tally.rejected)} rejected"
        )
    return tally.to_json()


def _judge(
    victim: Victim,
    until: int,
    runner: Runner,
    device: DeviceProfile,
    rng: random.Random,
    tally: Tally,
) -> None:
    workload, program = victim.workload, victim.program
    runner.set_fixture(make_fixture(workload.key, program))
    right = _right_kernels(victim, device, rng)
    while tally.mutants < until:
        candidate, tier = rng.choice(victim.candidates), rng.choice(device.tiers)
        mutant = make_mutant(program, candidate, tier, rng)
        kernel = kernel_of(workload, candidate, tier, mutant.artifact)
        result, verdict = _check(runner, kernel)
        what = {
            "workload": workload.key,
            "settings": settings_of(candidate),
            "tier": tier,
            "kind": mutant.kind,
        }
        if verdict.state == "won":
            original = kernel_of(
                workload, candidate, tier, compile_program(program, candidate, tier)
            )
            differs = _difference(runner, program, original, kernel)
            runner.set_fixture(make_fixture(workload.key, program))
            if not differs:
                tally.equivalent += 1
                if tally.equivalent > MOST_EQUIVALENT * (until + 1):
                    raise BugError("Almost every wrong kernel gives the right one's outputs.")
                continue
            tally.survivors.append({**what, "error_ratio": result.error_ratio, "found": differs})
        else:
            tally.caught[how_caught(result)] += 1
        tally.mutants += 1
        tally.kinds[mutant.kind] += 1
        tally.workloads[workload.name] += 1
        _, good = _check(runner, next(right))
        tally.correct += 1
        if good.state != "won":
            tally.rejected.append({**what, "after": mutant.kind, "reason": good.reason})


def how_caught(result: RunResult) -> str:
    """``trap`` (or no valid module), ``guard`` or ``values``."""
    if result.error:
        return "trap"
    return "values" if result.guard_ok else "guard"


def _right_kernels(victim: Victim, device: DeviceProfile, rng: random.Random) -> Iterator[Kernel]:
    """All settings in all tiers, in a seeded order, again and again."""
    pairs = [(c, tier) for c in victim.candidates for tier in device.tiers]
    while True:
        rng.shuffle(pairs)
        for candidate, tier in pairs:
            artifact = compile_program(victim.program, candidate, tier)
            yield kernel_of(victim.workload, candidate, tier, artifact)


def _difference(runner: Runner, program: Program, original: Kernel, mutant: Kernel) -> str:
    """Where an accepted mutant is not the original; empty when it is equivalent."""
    for seed in (SEED, *MORE_SEEDS):
        runner.set_fixture(make_fixture(original.workload, program, seed))
        expected, verdict = _check(runner, original)
        if verdict.state != "won":
            return f"the right kernel is {verdict.state} with seed {seed}: {verdict.reason}"
        result, verdict = _check(runner, mutant)
        if verdict.state != "won":
            return f"{verdict.state} with seed {seed}: {verdict.reason}"
        if result.digest != expected.digest or not result.digest:
            return f"other bits with seed {seed}, within the accepted error"
    return ""


def _check(runner: Runner, kernel: Kernel) -> tuple[RunResult, Verdict]:
    result = runner.measure(kernel, None, CHECK)
    return result, decide(result, 0, None)


def kernel_of(
    workload: Workload,
    candidate: Candidate | None,
    tier: str,
    artifact: Artifact,
    data: bytes = b"",
) -> Kernel:
    """The kernel of an artifact, or of other bytes with its panels and extent."""
    data = data or artifact.data
    sha256 = hashlib.sha256(data).hexdigest()
    extent = artifact.parallel_extent
    return Kernel(workload.key, candidate, tier, data, sha256, artifact.panels, extent)
