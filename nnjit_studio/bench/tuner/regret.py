"""``nnjit bench regret``: what the tuner found, against everything that it could have found."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_on
from nnjit_studio.compiler.spelling import WorkloadSpec, looks_like_spec
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import Kernel, KernelKey, MeasurePolicy, TuningRecord
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.space.wide_space import build_wide_space
from nnjit_studio.tuner import TuneOptions
from nnjit_studio.tuner.events import Failed, Measured, Swapped
from nnjit_studio.tuner.queue import KernelQueue
from nnjit_studio.tuner.swap_policy import SwapPolicy, speedup_interval
from nnjit_studio.workbench import SystemClock, Workbench
from nnjit_studio.workbench.tuning import session_of

SHAPES = {
    "K0": "matmul:384x768x768:f32",
    "K1": "matmul:640x768x3072:f32",
    "K2": "batch_matmul:12x384x384x64:f32",
    "K3": "batch_matmul:120x64x64x64:f32",
    "ffn_up": "matmul:128x384x1536:f32+bias+gelu",
    "ffn_down": "matmul:128x1536x384:f32+bias+residual",
    "projection": "matmul:128x384x384:f32+bias",
    "classifier": "matmul:16x256x1000:f32+bias",
    "tall": "matmul:1024x64x64:f32",
    "narrow": "matmul:256x256x10:f32",
    "deep": "matmul:32x4096x64:f32",
    "wide": "matmul:32x64x2048:f32",
    "primes": "matmul:97x101x103:f32",
    "odd": "matmul:197x197x77:f32",
    "row": "matmul:1x768x3072:f32",
    "row_odd": "matmul:1x1000x1000:f32",
    "row_relu": "matmul:1x512x512:f32+bias+relu",
    "two_rows": "matmul:2x768x768:f32",
    "seven_rows": "matmul:7x300x300:f32+bias",
    "var_odd": "matmul_var:77x333x50:f32",
    "var_square": "matmul_var:192x192x192:f32",
    "var_row": "matmul_var:1x256x384:f32",
    "scores": "batch_matmul:12x128x32x128:f32",
    "mixing": "batch_matmul:12x128x128x32:f32",
    "batch_odd": "batch_matmul:8x77x40x77:f32",
    "decode": "batch_matmul:12x1x64x384:f32",
    "conv3x3": "conv2d:1x64x28x28x64x3x3x1x1x1x1:f32",
    "conv_stem": "conv2d:1x3x56x56x16x3x3x2x1x1x1:f32+bias+relu",
    "conv1x1": "conv2d:1x96x28x28x24x1x1x1x0x1x1:f32",
    "depthwise": "conv2d:1x96x28x28x96x3x3x1x1x1x96:f32",
}
"""K0 to K3 of the paper (Table 3) and 26 others; no weight of the tuner was fitted on them."""

SCREEN = MeasurePolicy(pairs=2, min_sample_ms=2.0, warmup_ms=45.0, max_ms=400.0, early_stop_ratio=2)
SECOND = MeasurePolicy(pairs=5, min_sample_ms=4.0, warmup_ms=45.0, max_ms=1500.0)
FINAL = MeasurePolicy(pairs=16, min_sample_ms=5.0, warmup_ms=60.0, max_ms=4000.0)
SECOND_LOOKS = 12
"""Best candidates of the screening, of each space, that are measured again."""
FINALISTS = 3
MAX_INTERVAL = 0.1
"""A wider interval of the final ratio settles nothing: the machine was too busy."""
GPU_KINDS = ("matmul", "batch_matmul", "matmul_var")
"""Of the shapes, those with a lite space on a GPU."""
NEAR = 0.03
"""The best is found when an incumbent comes so near to it (design section 8)."""


@dataclass(frozen=True)
class Found:
    """What a cold session found: incumbents with the round that each won in, rounds in all."""

    incumbents: tuple[tuple[int, AnyCandidate | None], ...]
    order: tuple[str, ...]
    reason: str
    seconds: float


@dataclass
class Forgetful:
    """``Records`` of one session alone: nothing that is known colours it."""

    rows: list[TuningRecord] = field(default_factory=list)

    def commit_record(self, record: TuningRecord) -> None:
        self.rows.append(record)

    def records(self, key: KernelKey) -> Sequence[TuningRecord]:
        return [r for r in self.rows if r.key == key]

    def history(self, workloads: Sequence[Workload]) -> Sequence[TuningRecord]:
        return ()


def parse_shapes(text: str | None) -> list[tuple[str, WorkloadSpec]]:
    """A comma list of names of :data:`SHAPES` or spellings; a number N for the first N of
    them; all of them without.

    Raises
    ------
    UserError
        When there is no such shape, or none is asked for.
    """
    if text is None or text.isdecimal():
        words = list(SHAPES)[: None if text is None else int(text)]
    else:
        words = [w for w in text.split(",") if w]
    for word in words:
        if word not in SHAPES and not looks_like_spec(word):
            raise UserError(
                f"There is no shape {word!r}.", f"Write a workload, or use {', '.join(SHAPES)}."
            )
    if not words:
        raise UserError("No shape is asked for.", "Give a number above 0, or names.")
    return [(w, WorkloadSpec.parse(SHAPES.get(w, w))) for w in words]


def bench_regret(
    bench: Workbench,
    shapes: Sequence[tuple[str, WorkloadSpec]],
    times: int,
    rounds: int,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Tune each shape cold, then measure its whole lite space and one ``times`` as large.

    Regret is the share of the chosen kernel's time that the best of all would
    have saved, from samples taken side by side after all choices were made:
    1 - best ms / chosen ms; 0 where its 95 % interval holds 0.

    Raises
    ------
    CompileError, PageError, NnjitError
        When a session fails, or no candidate is right.
    """
    before = load_average()
    device = bench.page.connect()
    rows = []
    for i, (name, spec) in enumerate(shapes):
        if device.gpu and spec.kind not in GPU_KINDS:
            note(f"{name}: {spec.kind} has no lite space on a GPU")
            continue
        row = {"shape": name, **_one(bench, spec, times, rounds)}
        rows.append(row)
        note(f"{i + 1}/{len(shapes)} {row_text(row)}")
    if not rows:
        raise UserError("None of the shapes has a lite space here.", "Ask for matmul:MxKxN:f32.")
    return {
        "ok": True,
        **measured_on(device, before, bench.compiler.version),
        "target": device.label,
        "threads": device.threads,
        "tier": device.best_tier,
        "adapter": device.gpu.name if device.gpu else "",
        "rounds": rounds,
        "rows": rows,
        "summary": summary(rows, rounds),
    }


def summary(rows: Sequence[Mapping[str, Any]], rounds: int) -> dict[str, Any]:
    """Mean and worst regret by space, and on how many shapes the best was found in time."""
    found: dict[str, Any] = {"shapes": len(rows)}
    for space in ("lite", "wide"):
        regrets = [row["regret"][space] for row in rows]
        found[space] = {"mean": statistics.fmean(regrets), "worst": max(regrets)}
    reached = [row["rounds_to_best"] for row in rows]
    in_time = sum(r is not None and r <= rounds for r in reached)
    unsettled = sum(not row["settled"] for row in rows)
    return {**found, "found_in_time": in_time / len(rows), "unsettled": unsettled}


def row_text(row: Mapping[str, Any]) -> str:
    """One line of progress."""
    reached, regret, of = row["rounds_to_best"], row["regret"], row["candidates"]
    seconds = row["seconds"]
    return (
        f"{row['shape']}: {row['rounds']} rounds, {row['reason']}; within {NEAR:.0%} of the best "
        f"{'never' if reached is None else f'after {reached}'}; regret {regret['lite']:.1%} of "
        f"{of['lite']}, {regret['wide']:.1%} of {of['wide']} candidates"
        f"{'' if row['settled'] else ', not settled: the machine was too busy'} "
        f"({seconds['tuning']:.0f} + {seconds['exhaustive']:.0f} s)"
    )


def _one(bench: Workbench, spec: WorkloadSpec, times: int, rounds: int) -> dict[str, Any]:
    opened = bench.open_workload(str(spec))
    (workload,) = opened.workloads
    packable = workload.key in opened.packable
    found = tune_cold(bench)
    clock, device = SystemClock(), bench.page.connect()
    began_s = clock.monotonic_s()
    lite = [e.candidate for e in build_lite_space(workload, device, packable).entries]
    wide = build_wide_space(workload, device, packable, times)
    search = Exhaustive(bench, workload)
    chosen = search.kernel(found.incumbents[-1][1])
    rates = search.screen(wide, chosen)
    best = {
        space: search.best([c for c in candidates if c in rates], rates, chosen)
        for space, candidates in (("lite", lite), ("wide", wide))
    }
    duels = {space: search.duel(kernel, chosen) for space, kernel in best.items()}
    # The best of the larger space holds the smaller one too.
    top = max(duels, key=lambda space: duels[space]["speedup"])
    reached = search.rounds_to(best[top], found.incumbents)
    return {
        "workload": str(spec),
        "packable": packable,
        "candidates": {"lite": len(lite), "wide": len(wide), "right": len(rates)},
        "rounds": len(found.order),
        "reason": found.reason,
        "order": list(found.order),
        "chosen": chosen.settings,
        "best": {space: kernel.settings for space, kernel in best.items()},
        "duels": duels,
        "regret": {
            "lite": _regret(duels["lite"]),
            "wide": max(map(_regret, duels.values())),
        },
        "settled": all(d["high"] - d["low"] <= MAX_INTERVAL for d in duels.values()),
        "rounds_to_best": reached,
        "seconds": {"tuning": found.seconds, "exhaustive": clock.monotonic_s() - began_s},
    }


def _regret(duel: Mapping[str, float]) -> float:
    return 1 - 1 / duel["speedup"] if duel["low"] > 1 else 0.0


def tune_cold(bench: Workbench) -> Found:
    """A real session with an empty database, until nothing is expected of further rounds.

    Raises
    ------
    CompileError
        When the session fails.
    """
    clock = SystemClock()
    began_s = clock.monotonic_s()
    session = session_of(bench.model, TuneOptions(seconds=None), records=Forgetful())
    incumbents: list[tuple[int, AnyCandidate | None]] = [(0, None)]
    order: list[str] = []
    reason = ""
    for event in session.run():
        if isinstance(event, Measured):
            if event.candidate not in order:  # a repeat after drift is no further round
                order.append(event.candidate)
        elif isinstance(event, Swapped):
            incumbents.append((len(order), parse_candidate(event.candidate)))
        elif isinstance(event, Failed):
            raise CompileError(event.error["error"], event.error["hint"])
        reason = getattr(event, "reason", reason)
    return Found(tuple(incumbents), tuple(order), reason, clock.monotonic_s() - began_s)


class Exhaustive:
    """Measures candidates of one workload, whose fixture it sends."""

    def __init__(self, bench: Workbench, workload: Workload) -> None:
        self._runner, self._compiler = bench.page.runner, bench.compiler
        self._workload = workload
        self._tier = bench.page.connect().best_tier
        self._kernels: dict[AnyCandidate | None, Kernel] = {}
        self._runner.set_fixture(self._compiler.fixture(workload))

    def kernel(self, candidate: AnyCandidate | None) -> Kernel:
        if candidate not in self._kernels:
            compiled = self._compiler.compile(self._workload, candidate, (self._tier,))
            if compiled.error:
                raise CompileError(f"{self._workload.name} does not compile: {compiled.error}")
            self._kernels[candidate] = compiled.kernel(self._tier)
        return self._kernels[candidate]

    def screen(
        self, candidates: Sequence[AnyCandidate], chosen: Kernel
    ) -> dict[AnyCandidate, float]:
        """Speed over the chosen kernel of each that compiles and is right; equal bytes once."""
        rates: dict[AnyCandidate, float] = {}
        seen: dict[str, AnyCandidate] = {}
        for candidate, kernel in self._compiled(candidates):
            if kernel.sha256 in seen:
                continue
            seen[kernel.sha256] = candidate
            self._kernels[candidate] = kernel
            rate = self._rate(kernel, chosen, SCREEN)
            if rate is not None:
                rates[candidate] = rate
        if not rates:
            raise CompileError(f"No candidate of {self._workload.name} was right.")
        return rates

    def best(
        self, candidates: Sequence[AnyCandidate], rates: dict[AnyCandidate, float], chosen: Kernel
    ) -> Kernel:
        """The best of the screening's best, measured again, then once more."""
        for count, policy in ((SECOND_LOOKS, SECOND), (FINALISTS, FINAL)):
            candidates = sorted(candidates, key=lambda c: -rates[c])[:count]
            again = {c: self._rate(self.kernel(c), chosen, policy) for c in candidates}
            rates |= {c: rate for c, rate in again.items() if rate is not None}
        return self.kernel(max(candidates, key=lambda c: rates[c]))

    def duel(self, challenger: Kernel, incumbent: Kernel) -> dict[str, float]:
        """Speed-up with its 95 % interval, from fresh samples; 1 for equal bytes."""
        if challenger.sha256 == incumbent.sha256:
            return {"speedup": 1.0, "low": 1.0, "high": 1.0}
        result = self._runner.measure(challenger, incumbent, FINAL)
        if result.error or len(result.samples_ms) < 2:
            raise CompileError(f"A duel of {self._workload.name} ended early: {result.error}")
        speedup, low, high = speedup_interval(result.samples_ms, result.incumbent_ms, SwapPolicy())
        return {"speedup": speedup, "low": low, "high": high}

    def rounds_to(
        self, best: Kernel, incumbents: Sequence[tuple[int, AnyCandidate | None]]
    ) -> int | None:
        """The round whose incumbent first came within :data:`NEAR` of the best, or None."""
        for rounds, candidate in incumbents:
            if self.duel(best, self.kernel(candidate))["speedup"] <= 1 / (1 - NEAR):
                return rounds
        return None

    def _rate(self, kernel: Kernel, chosen: Kernel, policy: MeasurePolicy) -> float | None:
        result = self._runner.measure(kernel, chosen, policy)
        if result.error or not result.error_ratio <= 1 or not result.guard_ok:
            return None
        return statistics.median(result.incumbent_ms) / statistics.median(result.samples_ms)

    def _compiled(
        self, candidates: Sequence[AnyCandidate]
    ) -> Iterator[tuple[AnyCandidate, Kernel]]:
        """Those that compile, made while the page measures."""
        with KernelQueue(self._compiler) as queue:
            for candidate in candidates:
                queue.put(self._workload, candidate, (self._tier,))
            for candidate in candidates:
                compiled = queue.get()
                if not compiled.error:
                    yield candidate, compiled.kernel(self._tier)
