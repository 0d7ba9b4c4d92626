"""The page with a GPU: what it tells, what is refused, and lost devices made good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_page import FakePage, fake_page

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.connection import RequestError
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.engine.runner.recovery import MOST_LOSSES, GpuGone
from nnjit_studio.errors import PageError, TargetError, UserError
from nnjit_studio.model import Plan, PlanBuffer, PlanPort, PlanStep, TensorSpec
from nnjit_studio.records import Fixture, FixtureArg, Kernel, MeasurePolicy
from nnjit_studio.records.backend import WASM, Backend, choose_backend
from nnjit_studio.records.gpu_candidate import GpuCandidate

NAVIGATOR = Backend("webgpu", "navigator")
PROBED = {
    "type": "probed",
    "cross_origin_isolated": True,
    "simd": True,
    "relaxed_simd": True,
    "threads": True,
    "cores": 2,
    "timer_quantum_ms": 0.005,
    "user_agent": "fake/1",
    "peak_gflops": {},
}
ADAPTER = {
    "type": "gpu_probed",
    "available": True,
    "reason": "",
    "vendor": "nvidia",
    "architecture": "",
    "device": "0x2335",
    "description": "NVIDIA H200",
    "driver": "580",
    "is_fallback": False,
    "implementation": "navigator",
    "features": ["subgroups", "timestamp-query"],
    "language_features": ["packed_4x8_integer_dot_product"],
    "limits": {"maxBufferSize": 4294967292},
    "subgroup_min": 32,
    "subgroup_max": 32,
    "timestamp_quantum_ns": 32.0,
    "peak_gflops": 60000.0,
    "copy_gbs": 4000.0,
    "dispatch_us": 1.8,
}
MEASURED = {
    "type": "measured",
    "samples_ms": [0.5, 0.25],
    "incumbent_ms": [],
    "batch": 8,
    "error_ratio": 0.5,
    "guard_ok": True,
    "stopped_early": False,
    "instantiate_ms": 0.0,
    "error": "",
    "gpu_clock": "timestamp",
    "pipeline_ms": 40.5,
}
PLAN = Plan(
    "tiny",
    (PlanPort(TensorSpec("x", (4,), "f32"), 0),),
    (PlanPort(TensorSpec("y", (4,), "f32"), 1),),
    (PlanBuffer("arena", 0, 64), PlanBuffer("arena", 64, 64)),
    (PlanStep("call", "copy", (0, 1)), PlanStep("return")),
    8,
    128,
)
FEEDS = {"x": np.arange(4, dtype=np.float32)}
KERNELS = [
    Kernel("copy", GpuCandidate(4, 4, 1, 16, 16, 8), "wgsl", b"{}", "ab"),
    Kernel("other", None, "wgsl", b"{ }", "cd"),
]
FIXTURE = Fixture(
    "copy", (FixtureArg("output", "f32", 16),), (np.zeros(4),), (np.ones(4, np.float32),)
)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


class Page:
    """Answers as a page with a GPU does; ``fails`` lists the requests that lose the device."""

    def __init__(self, adapter: dict[str, Any] | None = None) -> None:
        self.adapter = adapter or ADAPTER
        self.fails: list[str] = []
        self.code = "gpu-lost"

    def __call__(self, page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        kind = header["type"]
        if self.fails and self.fails[0] == kind:
            self.fails.pop(0)
            page.reply(header, {"type": "error", "error": "It is gone.", "code": self.code})
        elif kind == "infer":
            y = {"name": "y", "dtype": "f32", "shape": [4]}
            page.reply(header, {"type": "inferred", "outputs": [y], "runs_ms": [1.0]}, [blobs[0]])
        else:
            known = {"probe": PROBED, "gpu_probe": self.adapter, "measure": MEASURED}
            page.reply(header, known.get(kind, {"type": "ok"}))


def loaded(hub: Hub, tmp_path: Path) -> PageRunner:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"12345678")
    runner = PageRunner(hub, "chromium", backend=NAVIGATOR)
    runner.load(PLAN, weights)
    runner.register(KERNELS)
    runner.set_fixture(FIXTURE)
    return runner


def kinds(page: FakePage) -> list[str]:
    return [header["type"] for header, _ in page.seen]


def test_a_probe_tells_the_adapter_and_keys_it(hub: Hub) -> None:
    answers = Page()
    with fake_page(hub, answers) as page:
        device = PageRunner(hub, "chromium", "--flag", backend=NAVIGATOR).probe_gpu((b"{}", 1000))
        asked = page.seen[-1]
        answers.adapter = {**ADAPTER, "features": [], "driver": "581", "implementation": "bridge"}
        other = PageRunner(hub, "embedded", backend=Backend("webgpu", "bridge")).probe_gpu(
            (b"{}", 1)
        )
    assert asked[0]["flops"] == 1000 and bytes(asked[1][0]) == b"{}"
    assert (device.target, device.label, device.flags) == (
        "chromium+webgpu",
        "chromium+webgpu",
        "--flag",
    )
    assert device.tiers == ("wgsl", "wgsl-subgroups") and device.best_tier == "wgsl-subgroups"
    assert device.peak("wgsl") == 60000.0 and device.threads == 1
    assert device.gpu is not None and device.gpu.name == "NVIDIA H200"
    assert device.gpu.limits["maxBufferSize"] == 4294967292
    assert other.tiers == ("wgsl",) and other.target == "embedded+wgpu"
    assert other.device_id == device.device_id, "the same adapter, its driver aside"


def test_software_is_refused_unless_asked_for(hub: Hub) -> None:
    software = Page({**ADAPTER, "description": "SwiftShader", "is_fallback": True})
    with fake_page(hub, software):
        with pytest.raises(TargetError, match=r"SwiftShader \(software, no GPU\)") as refused:
            PageRunner(hub, "chromium", backend=NAVIGATOR).probe_gpu((b"{}", 1))
        asked = Backend("webgpu", "navigator", software=True)
        device = PageRunner(hub, "chromium", backend=asked).probe_gpu((b"{}", 1))
    assert "--gpu software" in refused.value.hint
    assert device.gpu is not None and "software" in device.gpu.name
    assert device.target == "chromium+webgpu+software"


def test_no_adapter_is_one_sentence(hub: Hub) -> None:
    none = Page({"type": "gpu_probed", "available": False, "reason": "requestAdapter() gave null."})
    with fake_page(hub, none), pytest.raises(TargetError, match="gave null") as refused:
        PageRunner(hub, "chromium", backend=NAVIGATOR).probe_gpu((b"{}", 1))
    assert "--backend wasm" in refused.value.hint


def test_requests_name_their_backend(hub: Hub, tmp_path: Path) -> None:
    with fake_page(hub, Page()) as page:
        result = loaded(hub, tmp_path).measure(KERNELS[0], None, MeasurePolicy())
    said = {h["type"]: (h.get("backend"), h.get("implementation")) for h, _ in page.seen}
    assert said["load"] == said["fixture"] == ("webgpu", "navigator")
    assert said["register"] == said["measure"] == (None, None)
    assert (result.gpu_clock, result.pipeline_ms) == ("timestamp", 40.5)


def test_a_lost_device_gets_everything_again_and_the_call_goes_on(hub: Hub, tmp_path: Path) -> None:
    answers = Page()
    with fake_page(hub, answers) as page:
        runner = loaded(hub, tmp_path)
        before = len(page.seen)
        for losses in range(1, 8):
            answers.fails = ["infer"]
            np.testing.assert_array_equal(runner.infer(FEEDS).outputs["y"], FEEDS["x"])
            assert runner.losses == losses and runner.gone is None
    again = ["infer", "load", "weights", "register", "fixture", "infer"]
    assert kinds(page)[before:] == 7 * again
    assert [len(b) for h, b in page.seen if h["type"] == "register"] == 8 * [2]


def test_a_device_lost_while_it_measures_is_no_verdict_on_the_kernel(
    hub: Hub, tmp_path: Path
) -> None:
    answers = Page()
    with fake_page(hub, answers):
        runner = loaded(hub, tmp_path)
        answers.fails = ["measure"]
        assert runner.measure(KERNELS[0], None, MeasurePolicy()).error == ""
        assert runner.losses == 1
        answers.fails, answers.code = ["measure"], "gpu-kernel"
        assert "gone" in runner.measure(KERNELS[0], None, MeasurePolicy()).error


def test_a_device_that_stays_lost_is_given_up(hub: Hub, tmp_path: Path) -> None:
    answers = Page()
    with fake_page(hub, answers):
        runner = loaded(hub, tmp_path)
        answers.fails = ["infer", *["load"] * MOST_LOSSES]
        with pytest.raises(GpuGone, match=f"lost {MOST_LOSSES + 1} times in a row"):
            runner.infer(FEEDS)
        assert runner.gone is not None


def test_too_little_memory_is_given_up_at_once(hub: Hub, tmp_path: Path) -> None:
    answers = Page()
    with fake_page(hub, answers):
        runner = loaded(hub, tmp_path)
        answers.fails, answers.code = ["load"], "gpu-memory"
        with pytest.raises(GpuGone, match="memory") as gone:
            runner.load(PLAN, tmp_path / "weights.bin")
        assert isinstance(gone.value, PageError)
        answers.fails, answers.code = ["infer"], ""
        runner.load(PLAN, tmp_path / "weights.bin")
        with pytest.raises(RequestError):
            runner.infer(FEEDS)


@pytest.mark.parametrize(
    ("name", "gpu", "engine", "backend", "target"),
    [
        ("wasm", "auto", "embedded", WASM, "embedded"),
        ("webgpu", "auto", "chromium", NAVIGATOR, "chromium+webgpu"),
        ("webgpu", "auto", "embedded", Backend("webgpu", "bridge"), "embedded+wgpu"),
        ("webgpu", "bridge", "chromium", Backend("webgpu", "bridge"), "chromium+wgpu"),
        (
            "webgpu",
            "software",
            "chromium",
            Backend("webgpu", "navigator", True),
            "chromium+webgpu",
        ),
    ],
)
def test_what_a_user_asks_for(
    name: str, gpu: str, engine: str, backend: Backend, target: str
) -> None:
    chosen = choose_backend(name, gpu, engine)
    assert chosen == backend and chosen.target(engine) == target


def test_a_gpu_is_not_chosen_for_wasm() -> None:
    with pytest.raises(UserError, match="--gpu software is for WebGPU"):
        choose_backend("wasm", "software", "embedded")
