"""The gate: every changed loop is run and timed against its original in the target engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.errors import BugError
from nnjit_studio.foreign_wasm.turbo.candidates import Candidate
from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine
from nnjit_studio.foreign_wasm.turbo.gate.gain import Gain, gain_of
from nnjit_studio.foreign_wasm.turbo.gate.loop_module import MOST_SLOTS, loop_module, read_locals
from nnjit_studio.foreign_wasm.turbo.loops.find import Loop
from nnjit_studio.foreign_wasm.turbo.loops.operators import F64X2_MADD, F64X2_NMADD
from nnjit_studio.foreign_wasm.turbo.loops.variants import FMA, Variant
from nnjit_studio.support.stopping import check
from nnjit_studio.wasm_file.parts import Limits

LEAST_GAIN = 1.05
"""A changed loop is kept where it is at least so many times as fast."""
CONFIRMING_ROUNDS = 120


@dataclass(frozen=True)
class Settings:
    """Of a run of the gate, as ``resources/bench/turbo/loops.js`` describes them."""

    seed: int = 1
    cases: int = 24
    rounds: int = 40
    call_ms: float = 0.6
    warmup_ms: float = 40.0
    least_gain: float = LEAST_GAIN


@dataclass(frozen=True)
class Tried:
    """A body as it was measured.

    Attributes
    ----------
    gain
        None where no arguments were found that the loop runs on.
    cases, ended
        Random memory images, and how many of them the loop ran on without a trap.
    equal
        Whether every result was the original's: bit for bit, or with fused multiply-adds within
        a tolerance.
    """

    function: int
    loop: Loop
    variant: Variant
    gain: Gain | None
    cases: int
    ended: int
    equal: bool
    least_gain: float
    why: str = ""

    @property
    def passed(self) -> bool:
        gain = self.gain
        return (
            self.equal
            and gain is not None
            and gain.median >= self.least_gain
            and (gain.low > 1 or self.least_gain <= 1)
        )

    @property
    def verdict(self) -> str:
        """Why it is kept or not."""
        if not self.equal:
            return "its results differ"
        if self.gain is None:
            return self.why
        if self.passed:
            return f"{self.gain.median:.2f} times as fast"
        return (
            f"{self.gain.median:.2f} times as fast, less than {self.least_gain:g} or not told apart"
        )


def job_of(settings: Settings, **parts: Any) -> dict[str, Any]:
    """What an engine is to do, for ``resources/bench/turbo/work.js``; of other parts nothing."""
    return {"settings": asdict(settings), "functions": [], "pairs": [], "modules": [], **parts}


def measure(
    memory: Limits,
    candidates: Sequence[Candidate],
    engine: Engine,
    folder: Path,
    settings: Settings,
    note: Callable[[str], None],
) -> Iterator[Tried]:
    """Run and time every body of the candidates in one page of the engine, on such a memory.

    Raises
    ------
    PageError, TargetError
    """
    by_file = {f"f{c.function.index}.wasm": c for c in candidates}
    for name, candidate in by_file.items():
        check()
        (folder / name).write_bytes(loop_module(candidate.function, memory, candidate.loops))
    job = job_of(settings, functions=[_job(name, c, memory) for name, c in by_file.items()])
    seen = set[int]()
    for row in engine.rows(job, folder):
        told = row["loop"]
        candidate = by_file[told["file"]]
        loop, variants = next(c for c in candidate.loops if c[0].first == told["first"])
        tried = list(_tried(candidate.function.index, loop, variants, told, settings))
        best = max((t.gain.median for t in tried if t.gain), default=0.0)
        index = candidate.function.index
        seen.add(index)
        far = f"{len(seen)} of {len(candidates)} functions"
        note(f"{far}: loop {loop.first} of function {index}, best {best:.2f}x")
        yield from tried


def confirmed(
    memory: Limits,
    candidates: Sequence[Candidate],
    chosen: Sequence[Tried],
    engine: Engine,
    folder: Path,
    settings: Settings,
    note: Callable[[str], None],
) -> list[Tried]:
    """Measure the chosen bodies once more, with other data: the best of many is often luck."""
    by_index = {c.function.index: c.function for c in candidates}
    again: dict[int, dict[int, tuple[Loop, list[Variant]]]] = {}
    for t in chosen:
        loops = again.setdefault(t.function, {})
        loops.setdefault(t.loop.first, (t.loop, []))[1].append(t.variant)
    narrowed = [
        Candidate(by_index[index], tuple((loop, tuple(v)) for loop, v in loops.values()))
        for index, loops in again.items()
    ]
    once_more = replace(settings, seed=settings.seed + 7919, rounds=CONFIRMING_ROUNDS)
    return list(measure(memory, narrowed, engine, folder, once_more, note))


def _job(name: str, candidate: Candidate, memory: Limits) -> dict[str, Any]:
    loops = []
    for loop, variants in candidate.loops:
        graph = loop.graph
        given = list(read_locals(graph).values())
        results = [graph.nodes[n].type for n in graph.finals.values()]
        if max(len(given), len(results) + 1) > MOST_SLOTS:
            raise BugError(f"A loop of function {candidate.function.index} has too many locals.")
        fused = [_fused(v) for v in variants]
        loops.append({"first": loop.first, "given": given, "results": results, "fused": fused})
    return {"file": name, "shared": memory.shared, "wide": memory.in_64_bits, "loops": loops}


def _tried(
    index: int,
    loop: Loop,
    variants: Sequence[Variant],
    told: dict[str, Any],
    settings: Settings,
) -> Iterator[Tried]:
    samples, proof = told["samples_ms"], told["proof"]
    for n, variant in enumerate(variants):
        gain = gain_of(samples["o"], samples[f"v{n}"]) if samples else None
        equal = proof["equal"][n]
        why = told.get("error", "")
        ran = (proof["cases"], proof["ended"], equal)
        yield Tried(index, loop, variant, gain, *ran, settings.least_gain, why)


def _fused(variant: Variant) -> str:
    """The lanes of fused multiply-adds that the original does not have, or nothing."""
    codes = {variant.graph.nodes[n].code for n in variant.graph.order}
    wide = codes & {F64X2_MADD, F64X2_NMADD}
    return "" if variant.passed != FMA else "f64" if wide else "f32"
