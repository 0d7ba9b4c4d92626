"""The device experiments on a page and a compile process that are played."""

from __future__ import annotations

from dataclasses import replace

import pytest
from device_fakes import hop_ns, spill_rate

from nnjit_studio.compiler.process.results import DeviceKernels
from nnjit_studio.device.measured import COPY, READ
from nnjit_studio.device.primitives import PRIMITIVES
from nnjit_studio.doctor import microbench
from nnjit_studio.errors import CompileError, PageError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Kernel, RunResult

MATMUL = Workload("matmul", (576, 576, 576), "f32", (), "f" * 12, 1, 2 * 576**3, True)
DEVICE = DeviceProfile(
    "a" * 16, "embedded", "Some Browser", cores=4, tiers=("simd128", "relaxed-simd"),
    peak_gflops={"simd128": 60.0, "relaxed-simd": 60.0}, cross_origin_isolated=True,
)  # fmt: skip
FLOPS = 100


class PlayedCompiler:
    def device_kernels(self, tier, accumulators, copy_bytes):
        assert tier == "relaxed-simd" and copy_bytes == microbench.STREAM_BYTES
        spill = tuple((b"spill%d" % n, FLOPS) for n in accumulators)
        return DeviceKernels(spill, b"chase", b"read", b"copy", 3, 65536)

    def variants(self, tiers):
        names = [("", ""), *((p.name, s) for p in PRIMITIVES for s in p.settings[1:])]
        made = []
        for name, setting in names:
            same = name == "load_store_to_variable"  # its bytes are the base's
            sha = "base" if same or not name else name + setting
            made.append((name, setting, Kernel(MATMUL.key, None, "relaxed-simd", b"", sha)))
        return MATMUL, made

    def fixture(self, workload):
        assert workload == MATMUL
        return "fixture"


class PlayedPage:
    """An x64 machine with 48 KiB and 2 MiB of cache; ``wrong`` are kernels that fail."""

    def __init__(self, wrong=()):
        self.requests = []
        self.wrong = wrong
        self.threads = None

    def rates(self, kernels, request):
        self.requests.append(request)
        return [
            [self._ms(kernels[item.kernel], item) * k for k in (1.02, 1.0, 1.01)]
            for item in request.items
        ]

    def _ms(self, kernel, item):
        if kernel.startswith(b"spill"):
            return FLOPS / spill_rate(int(kernel[5:])) / 1e6
        if kernel == b"chase":
            return hop_ns(item.chain_bytes) / 1e6
        return (1 if kernel == b"read" else 2) * 65536 / (10e6 * item.threads**0.5)

    def set_fixture(self, fixture, threads=None):
        self.threads = threads

    def measure(self, challenger, incumbent, policy):
        assert incumbent.sha256 == "base"
        if challenger.sha256 in self.wrong:
            return RunResult(MATMUL.key, "", "relaxed-simd", error_ratio=7.0, guard_ok=True)
        ms = 10.0 if challenger.sha256 != "unroll8" else 8.0
        noise = [1.0, 1.004, 0.996, 1.002, 0.998, 1.001, 0.999, 1.003]
        return RunResult(
            MATMUL.key, "", "relaxed-simd", tuple(ms * k * 0.9 for k in noise),
            tuple(9.0 * 0.9 * k for k in noise), 1, 0.1, True,
        )  # fmt: skip


def measure(page, device=DEVICE, on_phase=lambda text: None):
    return microbench.measure_device(
        page, PlayedCompiler(), device, created="2026-11-21T00:00:00.000+00:00",
        versions={"compiler": "4"}, on_phase=on_phase,
    )  # fmt: skip


def test_the_experiments_find_what_the_page_plays():
    page, phases = PlayedPage(), []
    found = measure(page, on_phase=phases.append)
    assert (found.accumulators, found.vector_registers) == (12, 16)
    assert (found.l1_bytes, found.l2_bytes) == (48 << 10, 2 << 20)
    assert found.bandwidth_gbs(READ) == pytest.approx({1: 10.0, 4: 20.0})
    assert found.bandwidth_gbs(COPY) == pytest.approx({1: 10.0, 4: 20.0})
    assert page.threads == 1, "primitives are compared on one thread"
    verdicts = {(e.primitive, e.setting): e for e in found.effects}
    assert verdicts["unroll", "8"].verdict == "faster"
    assert verdicts["unroll", "8"].speedup == pytest.approx(9 / 8)
    assert verdicts["pack", "0"].verdict == "slower"
    assert verdicts["load_store_to_variable", "0"].same_bytes
    assert set(found.seconds) == set(microbench.EXPERIMENTS)
    assert phases[0].startswith("measuring the device, 1 of 4: vector registers")
    assert phases[-1].endswith("(14 of 14)")


def test_working_sets_are_asked_for_in_one_request_that_holds_the_largest():
    page = PlayedPage()
    measure(page)
    sweep = page.requests[1]
    sizes = [item.chain_bytes for item in sweep.items]
    assert sizes == sorted(sizes) and sizes[0] == 4096 and sizes[-1] == 32 << 20
    assert sweep.memory_bytes == sizes[-1]


def test_a_wrong_variant_gets_no_speed():
    found = measure(PlayedPage(wrong=("cache_read1",)))
    (effect,) = [e for e in found.effects if e.primitive == "cache_read"]
    assert effect.verdict == "failed" and "accepted error" in effect.error


def test_a_variant_with_few_samples_says_how_few():
    class Slow(PlayedPage):
        def measure(self, challenger, incumbent, policy):
            found = super().measure(challenger, incumbent, policy)
            return replace(
                found, samples_ms=found.samples_ms[:3], incumbent_ms=found.incumbent_ms[:3]
            )

    errors = {e.error for e in measure(Slow()).effects if not e.same_bytes}
    assert errors == {"only 3 pairs of samples"}


@pytest.mark.parametrize("still", [b"spill9", b"chase", b"copy"])
def test_a_clock_that_stands_still_is_told(still):
    class Stopped(PlayedPage):
        def _ms(self, kernel, item):
            return 0.0 if kernel == still else super()._ms(kernel, item)

    with pytest.raises(PageError, match="took no time"):
        measure(Stopped())


def test_without_shared_memory_bandwidth_is_that_of_one_thread():
    page = PlayedPage()
    found = measure(page, replace(DEVICE, cross_origin_isolated=False))
    assert found.curves[READ].x == (1,)
    assert all(item.threads == 1 for request in page.requests for item in request.items)


def test_whoever_hears_of_a_part_may_end_it():
    def stop(text):
        if "caches" in text:
            raise PageError("cancelled")

    page = PlayedPage()
    with pytest.raises(PageError, match="cancelled"):
        measure(page, on_phase=stop)
    assert len(page.requests) == 1


def test_a_compile_process_that_fails_is_its_error():
    class Failing(PlayedCompiler):
        def device_kernels(self, *_):
            raise CompileError("no kernels")

    with pytest.raises(CompileError, match="no kernels"):
        microbench.measure_device(PlayedPage(), Failing(), DEVICE, created="", versions={})
