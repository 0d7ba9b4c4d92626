"""A session: the products of somebody else's runtime, tuned between ordinary inferences."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.errors import PageError, UserError
from nnjit_studio.foreign_wasm.live.donors import Block, candidates, donor, tile_of, workload_of
from nnjit_studio.foreign_wasm.live.events import Answers, Rated
from nnjit_studio.foreign_wasm.live.heats import Heats
from nnjit_studio.foreign_wasm.live.job import Runtime
from nnjit_studio.foreign_wasm.live.layout import ORIGINAL
from nnjit_studio.foreign_wasm.live.page import EXACT_TIER, SETTLE, LivePage, refusal
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Kernel, KernelKey, TuningRecord
from nnjit_studio.records.estimate import Ratio
from nnjit_studio.records.gain import UNCHANGED, ModelGain
from nnjit_studio.records.outcomes import COMPARED
from nnjit_studio.space.lite_space import SpaceEntry, naive_size
from nnjit_studio.tuner.events import (
    Event,
    Finished,
    Measured,
    ModelCompared,
    ModelTimed,
    RoundDone,
    SessionStarted,
    SpaceBuilt,
    Swapped,
    Trying,
    WorkloadSummary,
)
from nnjit_studio.tuner.protocols import Clock, Records
from nnjit_studio.tuner.search.stored_records import stored_winner
from nnjit_studio.tuner.swap_policy import Verdict, gflops_of

WARM_UP_RUNS = 3
RATED_ROUNDS = 3
"""The first is the engine's baseline tier."""
RATE_MS = 1.5
"""Of a sample of one block, off the model's way."""
FINALISTS = 8
"""Donors, the best rated, that meet between inferences."""
NEAR = 1.3
"""Donors rated slower than the best by more are no finalists. Closer rates do not tell
which is faster in the model: they are of one thread, and of moments that other programs disturb."""
MIN_SAMPLE_MS = 20.0
LEAST_RATED_GAIN = 1.05
"""Of the best donor over the originals on the recorded blocks, for it to serve before its heat."""
TILES_UNTIL, UNROLLS_UNTIL, HEATS_UNTIL = 0.25, 0.4, 0.96
"""Shares of the time after which no further tile is tried, no further unroll, and the last round
should be over: on a busy machine the heats need what is left, and take longer than foreseen."""
LEAST_DONORS = 4
VARIED = 2
"""Tiles, the best rated, that are tried with every unroll."""
FINAL_RUNS = 5
FINAL_PAIRS, FINAL_MS = 12, 6000.0
"""Of the winner with the originals: enough for an interval, fewer where inferences are long."""


@dataclass(frozen=True)
class Setting:
    """What a session works with."""

    page: LivePage
    runtime: Runtime
    device: DeviceProfile
    tier: str
    model: str
    records: Records
    clock: Clock


class LiveSession:
    """Yields events as the tuner does; afterwards :attr:`winner` serves.

    Attributes
    ----------
    plain, winner
        The runtime's own kernels, and those that are chosen now.
    donors
        All that were proven, best rated first.
    """

    def __init__(self, setting: Setting, seconds: float) -> None:
        self._set, self._seconds = setting, seconds
        self._began_s = setting.clock.monotonic_s()
        originals = setting.runtime.made.originals
        digest = hashlib.sha256(originals).hexdigest()
        self.plain = Kernel("", None, EXACT_TIER, originals, digest)
        self.winner = self.plain
        self.donors: list[Kernel] = []
        self._rated: dict[Kernel, float] = {}
        self._before_ms = self._best_ms = 0.0
        self._best_s = 0.0
        self._flops = 0
        self._gain = ModelGain()

    def events(self) -> Iterator[Event]:
        """Tune until the finalists have met or the time is over.

        Raises
        ------
        UserError
            When the model uses none of the kernels.
        PageError
            When an answer of the model was wrong; the original kernels serve again.
        """
        page = self._set.page
        page.know(self.plain, ORIGINAL)
        target = {**asdict(self._set.device), "tier": self._set.tier}
        blocks = page.record()
        if not blocks:
            raise UserError(
                f"{self._set.model} asks for none of the kernels of {self._set.runtime.file.name}.",
                "Models with products or convolutions of 32-bit floats do.",
            )
        workload = workload_of(blocks, self._set.runtime.made.originals)
        yield SessionStarted(self.t_s(), self._set.model, (workload.key,), target)
        self._flops = workload.flops
        yield self._timed(WARM_UP_RUNS)
        self._before_ms = self._best_ms
        yield self.answers(self._best_ms)
        yield from self._tune(workload, blocks)
        self._check()
        yield from self._compared()
        self._check()
        yield self.answers()
        yield self._summary(workload, blocks, target)

    def _tune(self, workload: Workload, blocks: Sequence[Block]) -> Iterator[Event]:
        space = candidates(workload, self._set.device)
        made = {self._made(workload, e): e for e in space}
        known = self._set.records.records(self._key(workload))
        yield SpaceBuilt(
            self.t_s(),
            workload.key,
            tuple(k.settings for k in made),
            tuple(e.reason for e in space),
            naive_size(Workload("matmul", workload.dims, "f32")),
            len({r.settings for r in known}),
        )
        yield from self._adopted(workload, made, stored_winner(known))
        yield from self._prove(workload, [k for k, e in made.items() if not e.varies], TILES_UNTIL)
        self._rank(blocks)
        yield self._rates()
        varied = [k for k, e in made.items() if e.varies]
        offered = {tile_of(k) for k in varied}
        tiles = [tile for k in self.donors if (tile := tile_of(k)) in offered][:VARIED]
        varied = [k for k in varied if tile_of(k) in tiles]
        yield from self._prove(workload, varied, UNROLLS_UNTIL)
        finalists = self._rank(blocks)
        if self.winner not in (self.plain, *finalists):
            finalists.append(self.winner)
        yield self._rates()
        yield from self._finals(workload, finalists)

    def _made(self, workload: Workload, entry: SpaceEntry) -> Kernel:
        return donor(workload, entry.candidate, self._set.tier, self._set.runtime.made.shared)

    def _prove(
        self, workload: Workload, kernels: Sequence[Kernel], until: float
    ) -> Iterator[Event]:
        """Kernels that are right become donors, until that share of the time is over."""
        for kernel in kernels:
            if self._over(until) and len(self.donors) >= LEAST_DONORS:
                return
            if kernel in self.donors:
                continue
            yield Trying(self.t_s(), workload.key, kernel.settings, "check")
            proof = self._set.page.add(kernel)
            if wrong := refusal(proof, self._set.tier):
                yield self._recorded(workload, kernel, Verdict("wrong", wrong), (), ())
            else:
                self.donors.append(kernel)
            yield self.answers(self._set.page.checked.ms)

    def _rank(self, blocks: Sequence[Block]) -> list[Kernel]:
        """Sort the donors by their rates; those whose rate lets them win."""
        kernels = [self.plain, *self.donors]
        ms: list[float] = []
        for _ in range(RATED_ROUNDS):
            if not ms or not self._over(UNROLLS_UNTIL):
                ms = self._set.page.rate(kernels, blocks, RATE_MS)
        self._rated = dict(zip(kernels, ms, strict=True))
        self.donors.sort(key=self._rated.__getitem__)
        least = min(ms)
        return [k for k in self.donors if self._rated[k] <= NEAR * least][:FINALISTS]

    def _finals(self, workload: Workload, finalists: Sequence[Kernel]) -> Iterator[Event]:
        """The best rated serves at once; the fastest in turns with all others from then on."""
        if finalists and self.winner is self.plain:
            best = finalists[0]
            if self._rated[self.plain] >= LEAST_RATED_GAIN * self._rated[best]:
                ms = statistics.median(self._set.page.race([best], 2, MIN_SAMPLE_MS)[0])
                yield self._swap(workload, best, ms)
        if not finalists or self._over():
            return
        heats = Heats(
            lambda kernels, rounds: self._set.page.race(kernels, rounds, MIN_SAMPLE_MS),
            list(finalists),
            self.plain,
            lambda: 1000 * (HEATS_UNTIL * self._seconds - self.t_s()),
            max(self._before_ms, MIN_SAMPLE_MS),
            SETTLE,
        )
        for kernel in finalists:
            yield Trying(self.t_s(), workload.key, kernel.settings, "duel")
        for number, kernels in enumerate(heats.run(), 1):
            self._check()
            yield self.answers()
            yield from self._lead(workload, heats)
            for kernel in kernels:
                ms = statistics.median(heats.samples[kernel])
                yield RoundDone(
                    self.t_s(),
                    workload.key,
                    number,
                    kernel.settings,
                    gflops_of(workload.flops, ms),
                    gflops_of(workload.flops, self._best_ms),
                    self.winner.settings,
                    len(kernels) - 1,
                    self._best_ms,
                    max(0.0, self._seconds - self.t_s()),
                )
        yield from self._judged(workload, heats)

    def _lead(self, workload: Workload, heats: Heats) -> Iterator[Event]:
        """The fastest until now serves; the originals, if they are."""
        first = heats.ranked([heats.running[0], self.plain])[0]
        ms = statistics.median(heats.samples[first])
        if first is not self.winner:
            yield self._swap(workload, first, ms)
        self._best_ms = ms

    def _judged(self, workload: Workload, heats: Heats) -> Iterator[Event]:
        """What serves, judged against the originals; all others are judged against it."""
        for kernel in heats.samples:
            if kernel is not self.plain:
                incumbent = self.plain if kernel is self.winner else self.winner
                verdict = heats.verdict(kernel, incumbent, workload.flops)
                samples = heats.samples[kernel]
                others = heats.samples[incumbent][: len(samples)]
                yield self._recorded(workload, kernel, verdict, samples, others)

    def _adopted(
        self, workload: Workload, made: Iterable[Kernel], stored: TuningRecord | None
    ) -> Iterator[Event]:
        """Serve with an earlier session's winner, compiled anew and proven anew."""
        kernel = next((k for k in made if stored and k.sha256 == stored.sha256), None)
        if kernel is None or refusal(self._set.page.add(kernel), self._set.tier):
            return
        before = gflops_of(workload.flops, self._best_ms)
        self._set.page.choose(kernel)
        self.donors.append(kernel)
        self.winner, self._best_s = kernel, self.t_s()
        self._best_ms = statistics.median(self._set.page.serve(WARM_UP_RUNS)[1:])
        after = gflops_of(workload.flops, self._best_ms)
        yield Swapped(self.t_s(), workload.key, kernel.settings, before, after, True)

    def _swap(self, workload: Workload, kernel: Kernel, ms: float) -> Swapped:
        before = gflops_of(workload.flops, self._best_ms)
        self._set.page.choose(kernel)
        self.winner, self._best_ms, self._best_s = kernel, ms, self.t_s()
        after = gflops_of(workload.flops, ms)
        return Swapped(self.t_s(), workload.key, kernel.settings, before, after)

    def _recorded(
        self,
        workload: Workload,
        kernel: Kernel,
        verdict: Verdict,
        samples: Sequence[float],
        incumbent: Sequence[float],
    ) -> Measured:
        """The event of a verdict, which is in the database when this returns."""
        ms = statistics.median(samples) if samples else 0.0
        device = self._set.device
        self._set.records.commit_record(
            TuningRecord(
                key=self._key(workload),
                workload=workload.key,
                settings=kernel.settings,
                state=verdict.state,
                median_ms=ms,
                gflops=gflops_of(workload.flops, ms),
                samples_ms=tuple(samples),
                sha256=kernel.sha256,
                wasm=kernel.data,
                panels=(),
                parallel_extent=1,
                compile_ms=0.0,
                browser=device.user_agent,
                flags=device.flags,
                timer_quantum_ms=device.timer_quantum_ms,
                created=self._set.clock.now_iso(),
                speedup=verdict.speedup,
                speedup_low=verdict.low,
                speedup_high=verdict.high,
                error="" if verdict.state in COMPARED else verdict.reason,
            )
        )
        return Measured(
            self.t_s(),
            workload.key,
            kernel.settings,
            verdict.state,
            verdict.reason,
            gflops_of(workload.flops, ms),
            ms,
            tuple(samples),
            verdict.speedup,
            verdict.low,
            verdict.high,
            incumbent_ms=tuple(incumbent),
        )

    def _key(self, workload: Workload) -> KernelKey:
        return KernelKey.of(workload, self._set.device, self._set.tier, COMPILER_VERSION)

    def _timed(self, runs: int) -> ModelTimed:
        runs_ms = self._set.page.serve(runs)
        self._best_ms = statistics.median(runs_ms)
        return ModelTimed(self.t_s(), self._best_ms, tuple(runs_ms))

    def _compared(self) -> Iterator[Event]:
        """The winner and the originals in turns: what the session is worth."""
        if self.winner is self.plain:
            self._gain = ModelGain(UNCHANGED)
            yield self._timed(FINAL_RUNS)
            return
        fitting = int(FINAL_MS / max(self._before_ms + self._best_ms, 1.0))
        pairs = max(2, min(FINAL_PAIRS, fitting))
        before, after = self._set.page.race([self.plain, self.winner], pairs, MIN_SAMPLE_MS)
        self._before_ms, self._best_ms = statistics.median(before), statistics.median(after)
        self._gain = ModelGain.of(Ratio.of(before, after))
        yield ModelCompared(self.t_s(), tuple(before), tuple(after), self._gain)

    def _rates(self) -> Rated:
        rates = {k.settings: gflops_of(self._flops, ms) for k, ms in self._rated.items()}
        return Rated(self.t_s(), rates)

    def _check(self) -> None:
        checked = self._set.page.checked
        if checked.wrong:
            self._set.page.choose(self.plain)
            raise PageError(
                f"{checked.wrong} of {checked.runs} answers were not what the kernels may give.",
                "The original kernels serve again; report it with the model.",
            )

    def _summary(
        self, workload: Workload, blocks: Sequence[Block], target: dict[str, object]
    ) -> Finished:
        ms = {"before": self._before_ms, "after": self._best_ms}
        row = WorkloadSummary(
            workload=workload.key,
            uses=sum(b.calls for b in blocks),
            rounds=len(self.donors),
            candidates=len(self.donors),
            gflops={name: gflops_of(workload.flops, t) for name, t in ms.items()},
            ms=ms,
            best=self.winner.settings,
            share=1.0,
        )
        return Finished(
            t_s=self.t_s(),
            reason="time" if self._over() else "exhausted",
            model=self._set.model,
            model_ms=ms,
            compile_ms={"median": 0.0, "p99": 0.0},
            seconds_to_best=self._best_s,
            workloads=(row,),
            target=dict(target),
            seconds_to_within_3_percent=self._best_s,
            gain=self._gain,
        )

    def answers(self, ms: float = 0.0) -> Answers:
        """What is known of all answers; ``ms`` is of an inference with what serves."""
        checked = self._set.page.checked
        told = checked.runs, checked.wrong, checked.worst
        return Answers(self.t_s(), *told, gflops_of(self._flops, ms))

    def t_s(self) -> float:
        """Seconds since the session began."""
        return self._set.clock.monotonic_s() - self._began_s

    def _over(self, share: float = 1.0) -> bool:
        return self.t_s() >= share * self._seconds
