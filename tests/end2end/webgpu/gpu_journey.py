"""What every GPU must be able to do, with kernels small enough to write by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import tiny
from numpy.typing import NDArray
from waiting import PATIENCE_S

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.connection import RequestError
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.errors import PageError
from nnjit_studio.records import Kernel, MeasurePolicy, Tap
from nnjit_studio.records.backend import Backend
from nnjit_studio.records.serving import ServeOptions

POLICY = MeasurePolicy(pairs=4, min_sample_ms=0.5, min_quanta=2, warmup_ms=1.0, digest=True)
X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)

_CODE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < %du) { y[id.x] = %s; }
}
"""


def document(value: str, bindings: str = "a0 a1 a2", requires: tuple[str, ...] = ()) -> bytes:
    """One dispatch that writes ``value`` to each element."""
    dispatch = {
        "code": _CODE % (tiny.N, value),
        "entry": "main",
        "workgroups": [1, 1, 1],
        "bindings": bindings.split(),
        "access": ["read", "read", "read_write"],
    }
    data = {"version": 1, "scratch": [64], "requires": requires, "dispatches": [dispatch]}
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def in_two(value: str) -> bytes:
    """The same in two dispatches, by way of scratch."""
    first = json.loads(document(value, "a0 a1 s0"))
    second = json.loads(document("x[id.x] + 0.0 * w[id.x]", "s0 a1 a2"))
    first["dispatches"] += second["dispatches"]
    return json.dumps(first, sort_keys=True, separators=(",", ":")).encode()


def kernel(value: str = "x[id.x] + w[id.x]", data: bytes | None = None) -> Kernel:
    data = data or document(value)
    return Kernel(tiny.WORKLOAD, None, "wgsl", data, hashlib.sha256(data).hexdigest())


def runner_on(hub: Hub, engine: str, implementation: str) -> PageRunner:
    backend = Backend("webgpu", implementation, software=True)
    return PageRunner(hub, engine, timeout_s=PATIENCE_S, backend=backend)


def load(runner: PageRunner, folder: Path) -> NDArray[np.float32]:
    """Loads the tiny model, whose weights stay in the folder, and returns its weight."""
    plan, weights = tiny.plan_and_weights()
    file = folder / "weights.bin"
    file.write_bytes(weights)
    runner.load(plan, file)
    return np.frombuffer(weights, np.float32)[: tiny.N].reshape(2, 3)


def drive(hub: Hub, engine: str, implementation: str, folder: Path) -> None:
    """Probe, load, infer, swap, measure right, wrong and unfit kernels."""
    hub.wait_for_page(PATIENCE_S)
    runner = runner_on(hub, engine, implementation)
    _probe(runner, implementation)
    w = load(runner, folder)
    assert 0 < runner.memory_bytes < 4096
    runner.register([kernel()])
    result = runner.infer({"x": X}, runs=20, profile=True)
    np.testing.assert_array_equal(result.outputs["y"], X + w)
    assert len(result.runs_ms) == 20
    assert len(result.steps_ms) == 1
    taps = runner.tap({"x": X}, [Tap(0, 2, 4, 8), Tap(0, 0, 0, 4)])
    assert taps == [(X + w).tobytes()[4:12], X.tobytes()[:4]]

    runner.register([kernel(data=in_two("x[id.x] * w[id.x]"))])
    np.testing.assert_array_equal(runner.infer({"x": X}).outputs["y"], X * w)
    _refuse_kernels(runner)
    np.testing.assert_array_equal(runner.infer({"x": X}).outputs["y"], X * w)
    _measure(runner)
    _serve(runner)


def _probe(runner: PageRunner, implementation: str) -> None:
    dispatch = {
        "code": "@group(0) @binding(0) var<storage, read_write> r: array<f32>;"
        "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {"
        "var a = f32(id.x); for (var i = 0; i < 64; i++) { a = fma(a, 0.5, 1.0); } r[id.x] = a; }",
        "entry": "main", "workgroups": [64, 1, 1], "bindings": ["s0"], "access": ["read_write"],
    }  # fmt: skip
    data = {"version": 1, "scratch": [64 * 64 * 4], "requires": [], "dispatches": [dispatch]}
    device = runner.probe_gpu((json.dumps(data).encode(), 2 * 64 * 64 * 64))
    gpu = device.gpu
    assert gpu is not None
    assert gpu.implementation == implementation
    assert gpu.limits["maxComputeInvocationsPerWorkgroup"] >= 256
    assert gpu.copy_gbs > 0
    assert gpu.dispatch_us > 0
    assert device.peak_gflops["wgsl"] > 0


def _refuse_kernels(runner: PageRunner) -> None:
    """Kernels that do not compile or fit leave the registered ones as they are."""
    bad = {
        "nothing": document("nothing[id.x]"),
        "needs no-such-feature": document("x[id.x]", requires=("no-such-feature",)),
        "needs wgsl:no_such": document("x[id.x]", requires=("wgsl:no_such",)),
        "binds a7": document("x[id.x]", "a0 a1 a7"),
        "is refused": b"\0asm",
    }
    for said, data in bad.items():
        with pytest.raises(RequestError, match=said) as caught:
            runner.register([kernel(data=data)])
        assert caught.value.code == "gpu-kernel"
    with pytest.raises(RequestError, match="was refused before"):
        runner.register([kernel(data=bad["nothing"])])


def _measure(runner: PageRunner) -> None:
    runner.set_fixture(tiny.fixture())
    right = runner.measure(kernel(), kernel(data=in_two("x[id.x] + w[id.x]")), POLICY)
    assert right.error == ""
    assert right.guard_ok
    assert right.error_ratio <= 1
    assert len(right.samples_ms) == len(right.incumbent_ms) == POLICY.pairs or right.stopped_early
    assert right.gpu_clock in ("timestamp", "wall")
    assert right.pipeline_ms > 0
    assert len(right.digest) == 64
    again = runner.measure(kernel(), None, POLICY)
    assert (again.digest, again.instantiate_ms) == (right.digest, right.instantiate_ms)
    wrong = runner.measure(kernel("x[id.x] - w[id.x]"), None, POLICY)
    assert wrong.error_ratio > 1
    assert not wrong.samples_ms
    for data, said in (
        (document("nothing[id.x]"), "nothing"),
        (document("x[id.x]", "a2 a1 a0"), "an input"),
    ):
        unfit = runner.measure(kernel(data=data), None, POLICY)
        assert said in unfit.error
    assert runner.measure(kernel(), None, POLICY).error == ""


def _serve(runner: PageRunner) -> None:
    """The model answers on and on while a kernel is swapped and another one measured."""
    runner.serve({"x": X}, ServeOptions(interval_ms=0.0, budget=None))
    runner.register([kernel()])
    assert runner.measure(kernel(), None, POLICY).error == ""
    stats = runner.served()
    assert stats.latencies_ms
    assert max(stats.generations) == 1
    runner.stop_serving()


def lose(hub: Hub, engine: str, implementation: str, folder: Path, times: int) -> None:
    """Devices are lost at any moment; each is made good, and what comes out is right."""
    hub.wait_for_page(PATIENCE_S)
    runner = runner_on(hub, engine, implementation)
    runner._fields = {**runner._fields, "debug": True}  # type: ignore[dict-item]
    w = load(runner, folder)
    runner.register([kernel()])
    for n in range(times):
        hub.request({"type": "gpu_lose", "after_ms": n % 10 * 3}, (), PATIENCE_S)
        for turn in range(200):
            x = X + 100 * n + turn
            np.testing.assert_array_equal(runner.infer({"x": x}, runs=3).outputs["y"], x + w)
            if turn % 3 == 0:
                runner.register([kernel()])
            if runner.losses > n:
                break
        assert runner.losses == n + 1
    assert runner.gone is None
    runner._fields = {k: v for k, v in runner._fields.items() if k != "debug"}
    load(runner, folder)
    with pytest.raises(PageError, match="only after a load with `debug`"):
        hub.request({"type": "gpu_lose"}, (), PATIENCE_S)
