"""What every target must be able to do; the tests run it in each of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import tiny
from waiting import PATIENCE_S

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.engine.runner.rival import RivalModel
from nnjit_studio.errors import PageError
from nnjit_studio.records import MeasurePolicy

POLICY = MeasurePolicy(pairs=2, min_sample_ms=0.5, min_quanta=2, warmup_ms=1.0)


def drive(hub: Hub, target: str) -> None:
    """The journey on one thread, then on two and three."""
    assert hub.wait_for_page(PATIENCE_S)["protocol"] == 1
    for threads in (1, 2, 3):
        runner = PageRunner(hub, target, timeout_s=PATIENCE_S, threads=threads)
        drive_on(runner, endless=threads < 3)


def drive_on(runner: PageRunner, endless: bool) -> None:
    """Probe, load, infer, measure right and wrong kernels, swap, infer again.

    ``endless``: also measure a kernel that does not end, which keeps a core busy for 2 s.
    """
    profile = runner.probe([tiny.peak_kernel()])
    assert profile.cross_origin_isolated
    assert "simd128" in profile.tiers
    assert profile.peak_gflops["simd128"] > 0
    assert 0 < profile.timer_quantum_ms < 1
    assert profile.cores >= 1

    plan, weights = tiny.plan_and_weights()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "weights.bin"
        file.write_bytes(weights)
        runner.load(plan, file)
        runner.register([tiny.kernel("add")])
        compare_forms(runner, RivalModel(runner, plan, file))
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    w = np.frombuffer(weights, np.float32)[: tiny.N].reshape(2, 3)
    result = runner.infer({"x": x}, runs=1000, profile=True)
    np.testing.assert_array_equal(result.outputs["y"], x + w)
    assert len(result.runs_ms) == 1000
    assert len(result.steps_ms) == 1
    assert result.steps_threads in {(1,), (profile.threads,)}

    runner.set_fixture(tiny.fixture())
    right = runner.measure(tiny.kernel("add"), tiny.kernel("add"), POLICY)
    assert right.error == ""
    assert right.guard_ok
    assert right.error_ratio <= 1
    assert right.samples_ms
    assert right.incumbent_ms
    wrong = runner.measure(tiny.kernel("sub"), None, POLICY)
    assert wrong.error_ratio > 1
    if endless:
        late = runner.measure(tiny.endless_kernel(), tiny.kernel("add"), POLICY)
        assert "first run did not end within 2 s" in late.error, late
    assert runner.measure(tiny.kernel("add"), tiny.kernel("add"), POLICY).samples_ms

    tried = runner.trial({"x": x}, [tiny.kernel("sub")], POLICY)
    assert tried.error == "" and len(tried.ms) == len(tried.without_ms) == POLICY.pairs
    np.testing.assert_array_equal(runner.infer({"x": x}).outputs["y"], x + w)

    runner.register([tiny.kernel("mul")])
    np.testing.assert_array_equal(runner.infer({"x": x}).outputs["y"], x * w)


def compare_forms(runner: PageRunner, rival: RivalModel) -> None:
    """Another form of the model, in a memory and with kernels of its own."""
    x = np.ones((2, 3), np.float32)
    rival.register([tiny.kernel("sub")])
    mine, other = runner.infer({"x": x}).outputs["y"], rival.infer({"x": x}).outputs["y"]
    np.testing.assert_array_equal(mine + other, 2 * x)
    found = rival.trial({"x": x}, POLICY)
    assert found.mode == "models" and len(found.ms) == len(found.without_ms) == POLICY.pairs
    rival.drop()
    with pytest.raises(PageError, match="No other form"):
        rival.infer({"x": x})
