"""A session over a GPU: its tiers, its lite space, its order, and what it records."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

from tuner_fakes import DEFAULT_MS, TUNABLE, WORKLOADS, FakeRunner, Stage

from nnjit_studio.device.gpu_constants import with_constants
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Kernel, MeasurePolicy, RunResult
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate, GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.space.webgpu.cost import expected_cost
from nnjit_studio.space.webgpu.matmul import gpu_problem
from nnjit_studio.tuner.events import Finished, Measured, RoundDone, SessionStarted, SpaceBuilt

H200 = with_constants(
    GpuProfile(vendor="nvidia", description="NVIDIA H200", features=("subgroups",))
)
DEVICE = DeviceProfile(
    "gpu",
    "chromium+webgpu",
    tiers=("wgsl", "wgsl-subgroups"),
    peak_gflops={"wgsl": 60e3, "wgsl-subgroups": 60e3},
    gpu=H200,
)


def rugged(seed: int, roughness: float = 0.15) -> object:
    """Ms of one run: the cost model's, off by about ``roughness`` for tile, depth and split."""

    def bump(*what: object) -> float:
        unit = zlib.crc32(repr((seed, *what)).encode()) / 2**32
        return roughness * 3.4 * (unit - 0.5)

    def speed(key: str, candidate: AnyCandidate | None) -> float:
        workload = next((w for w in TUNABLE if w.key == key), None)
        if workload is None:
            return 0.05
        if candidate is None:
            return DEFAULT_MS[workload.kind] / 1000
        assert isinstance(candidate, GpuCandidate)
        p, c = gpu_problem(workload, H200), candidate
        off = bump(key, c.x0, c.y0) + bump(key, c.x1, c.y1) + bump(key, c.r1, c.split)
        return 1e-9 * expected_cost(c, p) * math.exp(off)

    return speed


class GpuRunner(FakeRunner):
    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        result = super().measure(challenger, incumbent, policy)
        gpu = {"pipeline_ms": 40.0, "late_ms": 1.0, "total_ms": 20.0}
        return replace(result, gpu_clock="timestamp", **gpu)


def stage(seed: int = 1) -> Stage:
    made = Stage(device=DEVICE)
    made.runner = GpuRunner(made.clock, made.runner.plan, speed=rugged(seed), round_s=0.05)
    return made


def test_a_session_compiles_the_tiers_of_the_device_and_records_its_clock() -> None:
    on_gpu = stage()
    events = list(on_gpu.session(seconds=20.0).run())
    first, last = events[0], events[-1]
    assert isinstance(first, SessionStarted) and isinstance(last, Finished)
    assert (first.target["tier"], first.target["adapter"]) == ("wgsl-subgroups", "NVIDIA H200")
    assert last.pipeline_ms == {"median": 40.0, "p99": 40.0} and last.late_share == 0.05
    assert set(on_gpu.runner.prepared) <= {e.candidate for e in events if e.name == "measured"}
    asked = {tiers for _, settings, tiers in on_gpu.compiler.built if settings == "default"}
    assert asked == {("wgsl", "wgsl-subgroups")}
    measured = [e for e in events if isinstance(e, Measured)]
    assert measured and {e.gpu_clock for e in measured} == {"timestamp"}
    assert {r.gpu_clock for r in on_gpu.records.rows} == {"timestamp"}
    assert {r.key.tier for r in on_gpu.records.rows} == {"wgsl-subgroups"}
    spaces = [e for e in events if isinstance(e, SpaceBuilt)]
    assert all("split=" in c for e in spaces for c in e.candidates)


def test_a_later_session_starts_from_the_winner() -> None:
    on_gpu = stage()
    events = list(on_gpu.session(seconds=20.0).run())
    best = {e.workload: e.best_candidate for e in events if isinstance(e, RoundDone)}
    again = Stage(device=DEVICE, records=on_gpu.records)
    again.runner = GpuRunner(again.clock, again.runner.plan, speed=rugged(1), round_s=0.05)
    taken = [e for e in again.session(seconds=5.0).run() if e.name == "swapped"]
    assert {e.workload: e.candidate for e in taken if e.from_database} == best


def test_kernels_of_wasm_teach_a_gpu_nothing() -> None:
    on_cpu = Stage()
    list(on_cpu.session(seconds=5.0).run())
    assert {r.key.tier for r in on_cpu.records.rows} == {"relaxed-simd"}
    on_gpu = Stage(device=DEVICE, records=on_cpu.records)
    on_gpu.runner = GpuRunner(on_gpu.clock, on_gpu.runner.plan, speed=rugged(1), round_s=0.05)
    events = list(on_gpu.session(seconds=5.0).run())
    assert isinstance(events[-1], Finished)


def rounds_to_within(seed: int, share: float) -> list[int]:
    """Rounds of each workload until its best candidate is within ``share`` of the space's."""
    on_gpu = stage(seed)
    speed = on_gpu.runner.speed
    tried: dict[str, list[float]] = {}
    for event in on_gpu.session(seconds=None, exhaustive=True).run():
        if isinstance(event, Measured):
            candidate = GpuCandidate.parse(event.candidate)
            tried.setdefault(event.workload, []).append(speed(event.workload, candidate))
    found = []
    for workload in TUNABLE:
        entries = build_lite_space(workload, DEVICE, packable=False).entries
        least = min(speed(workload.key, e.candidate) for e in entries)
        within = [ms <= least * (1 + share) for ms in tried[workload.key]]
        found.append(within.index(True) + 1)
    return found


def test_the_order_finds_the_best_soon_on_rugged_spaces() -> None:
    rounds = sorted(n for seed in range(8) for n in rounds_to_within(seed, 0.03))
    assert rounds[len(rounds) // 2] <= 12, rounds
    assert rounds[int(0.8 * len(rounds))] <= 24, rounds


def test_candidates_of_both_backends_are_told_apart() -> None:
    space = build_lite_space(TUNABLE[0], DEVICE, packable=True)
    assert all(isinstance(e.candidate, GpuCandidate) for e in space.entries)
    plain = build_lite_space(TUNABLE[0], replace(DEVICE, gpu=None, tiers=("simd128",)), True)
    assert all(isinstance(e.candidate, Candidate) for e in plain.entries)


def test_what_has_no_lite_space_on_a_gpu_keeps_its_default() -> None:
    conv = Workload("conv2d", (1, 8, 8, 8, 8, 3, 3), "f32", fingerprint="dd", tunable=True)
    on_gpu = Stage(device=DEVICE, workloads=(*WORKLOADS, conv))
    speed = rugged(1)
    on_gpu.runner = GpuRunner(
        on_gpu.clock, on_gpu.runner.plan, speed=lambda k, c: speed(k, c) if c else 0.5
    )
    events = list(on_gpu.session(seconds=5.0).run())
    assert isinstance(events[-1], Finished)
    assert conv.key not in {e.workload for e in events if isinstance(e, SpaceBuilt)}
    kept = next(w for w in events[-1].workloads if w.workload == conv.key)
    assert (kept.best, kept.candidates) == ("default", 0)
