"""Which is faster here: the answer follows the parts, and both sides are timed alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from profiles import GRAPH, MATMUL, PLAN, TRANSPOSE

from nnjit_studio.analysis.backends import BackendComparison, Side, StepPair, as_text, why
from nnjit_studio.analysis.profile.records import Steady
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.errors import UserError
from nnjit_studio.records import CompileResult, DeviceProfile, Inference
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.workbench.divided import recalled
from nnjit_studio.workbench.jobs.compare import (
    READBACK,
    UPLOAD,
    compare_backends,
    transfer_plans,
)
from nnjit_studio.workbench.open_model import OpenModel

GPU = Backend("webgpu", "navigator")


def side(steps: tuple[float, ...], whole: float, up: float = 0.0, **changes: Any) -> Side:
    base = Side(
        "wasm", "chromium", "simd128", 2, "", False, Steady(whole, whole, 0, 5), up, up, steps
    )
    return replace(base, **changes)


def found(wasm: Side, gpu: Side, drift: float = 1.0) -> BackendComparison:
    gpu = replace(gpu, backend="webgpu", adapter="A GPU")
    pairs = zip(wasm.steps_ms, gpu.steps_ms, strict=True)
    steps = tuple(StepPair(f"n{i}", "matmul", a, b) for i, (a, b) in enumerate(pairs))
    return BackendComparison("m", wasm, gpu, steps, drift)


def test_a_faster_gpu_says_where_it_gains() -> None:
    told = why(found(side((8.0, 2.0, 0.01), 10.0), side((0.5, 0.4, 0.05), 2.0, 0.25)))
    assert told[0].startswith("WebGPU is 5.0x as fast here: Wasm on 2 threads takes 10.0 ms")
    assert "moving the inputs there and the outputs back 0.5 ms (25%)" in told[1]
    assert "n0: 8 ms in Wasm, 0.5 ms on the GPU" in told[2]
    assert "1 of 3 steps are faster in Wasm" in told[3]


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        (side((0.5,), 20.0, 9.0), "the transfers (18.0 ms) cost more"),
        (side((0.5,), 20.0, 0.1), "waiting for the GPU (19.3 ms) cost more"),
        (side((30.0,), 31.0, 0.1), "themselves are slower on the GPU, most of all n0"),
    ],
)
def test_a_faster_wasm_says_what_holds_the_gpu_up(gpu: Side, reason: str) -> None:
    told = found(side((8.0,), 10.0), gpu)
    assert told.faster == "wasm" and reason in why(told)[2]


def test_many_small_steps_are_named() -> None:
    steps = 50
    told = found(side((0.01,) * steps, 0.6), side((0.05,) * steps, 3.0))
    assert "50 small steps" in why(told)[2]


def test_what_the_clock_cannot_tell_apart_is_no_crash() -> None:
    assert found(side((), 0.0), side((), 0.0)).faster == "even"
    assert len(why(found(side((), 1.0), side((), 0.0)))) >= 2
    # steps that were timed apart may take longer than the whole
    told = found(side((8.0, 8.0), 10.0), side((7.0, 7.0), 15.0))
    assert told.faster == "wasm" and "slower on the GPU" in why(told)[2]


def test_doubts_are_told() -> None:
    even = found(side((1.0,), 1.0), side((1.0,), 1.02, software=True), drift=1.5)
    assert even.faster == "even" and why(even)[0].startswith("Both are about as fast")
    assert any("says nothing of a GPU" in line for line in why(even))
    assert any("compare once more" in line for line in why(even))
    assert even.to_json()["webgpu"]["rest_ms"] == pytest.approx(0.02)


def test_the_text_ranks_by_difference() -> None:
    text = as_text(found(side((1.0, 9.0), 10.0), side((1.1, 0.1), 2.0)), top=1)
    assert "n1" in text.splitlines()[-1] and text.splitlines()[-2].startswith("step")


class Model:
    """Counts what it is asked, as model and page; the GPU's runs take a quarter of Wasm's."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.loaded: list[Any] = []
        self.page = self
        self.backend = WASM
        self.device = device_of(WASM)
        self.fallback_reason = ""
        self.lost = ""
        imported = ImportedModel(GRAPH, (MATMUL, TRANSPOSE), PLAN, frozenset(), Path("w"))
        self.opened = OpenModel.static(Path("m.onnx"), imported)
        self.database = SimpleNamespace(path=folder / "k.db")
        self.compiler = SimpleNamespace(
            compile=lambda workload, *_: CompileResult(workload.key, None)
        )
        self.target = "chromium+webgpu"

    @property
    def current(self) -> OpenModel:
        return self.opened

    def here(self, backend: Backend) -> Any:
        return SimpleNamespace(target=self.target)

    def connect(self) -> DeviceProfile:
        return self.device

    @contextmanager
    def cancellable(self, what: str, on_phase: Any) -> Iterator[Any]:
        yield on_phase

    def stop_serving(self) -> None:
        pass

    def change_backend(self, backend: Backend, on_phase: Any) -> None:
        self.backend, self.device = backend, device_of(backend)
        self.asked.append(backend.name)

    def load_with(self, others: Any) -> None:
        self.loaded.append(others)

    def register_best(self, on_phase: Any) -> None:
        self.asked.append("register")

    def infer(self, runs: int = 1, profile: bool = False, least_step_ms: float = 0) -> Inference:
        self.fallback_reason = self.lost
        ms = 1.0 if self.backend.is_gpu else 4.0
        return Inference({}, (ms,) * runs, (ms / 4,) * 3 if profile else ())

    def infer_plan(self, name: str, runs: int) -> Inference:
        return Inference({}, ({UPLOAD: 0.05, READBACK: 0.1}[name],) * runs)


def device_of(backend: Backend) -> DeviceProfile:
    return DeviceProfile("d", "t", gpu=GpuProfile() if backend.is_gpu else None, tiers=("wgsl",))


def compared(model: Model) -> BackendComparison:
    return compare_backends(model, runs=5, gpu=GPU)  # type: ignore[arg-type]


def test_both_run_on_one_page_and_wasm_twice(tmp_path: Path) -> None:
    model = Model(tmp_path)
    got = compared(model)
    assert model.asked == ["register", "webgpu", "register", "wasm", "register"]
    assert got.faster == "webgpu" and got.ratio == 4.0 and got.drift == 1.0
    assert (got.webgpu.upload_ms, got.webgpu.readback_ms) == (0.05, 0.1)
    assert [s.node for s in got.steps] == [s.node for s in PLAN.steps[:-1]]
    np.testing.assert_allclose(got.webgpu.rest_ms, 1 - 0.75 - 0.15, atol=1e-9)


class SlowStep(Model):
    """The GPU takes 5 ms for the second step; divided, the model takes ``ms``."""

    ms = 1.0

    def infer(self, runs: int = 1, profile: bool = False, least_step_ms: float = 0) -> Inference:
        gpu, mixed = self.backend.is_gpu, self.opened.mixed
        whole = (self.ms if mixed else 5.5) if gpu else 6.0
        steps = (0.1, 5.0, 0.1) if gpu else (3.0, 0.1, 3.0)
        return Inference({}, (whole,) * runs, steps if profile else ())


@pytest.mark.parametrize(("ms", "stays"), [(1.0, True), (7.0, False)])
def test_the_cheapest_division_is_timed_and_stays_where_it_is_faster(
    tmp_path: Path, ms: float, stays: bool
) -> None:
    model = SlowStep(tmp_path)
    model.ms = ms
    for _ in range(2):  # what was kept is forgotten first: WebGPU is timed with all its kernels
        got = compared(model)
        assert got.devices == ("webgpu", "wasm", "webgpu") and got.webgpu.whole.median_ms == 5.5
        assert got.mixed is not None and got.mixed.whole.median_ms == ms
        assert (model.opened.mixed is not None) == stays
        assert (recalled(tmp_path, Path("m.onnx"), model.target) is not None) == stays
    words = "so the model stays divided" if stays else "so it stays as it was"
    assert any("With 1 of 3 steps in Wasm" in s and s.endswith(f"{words}.") for s in why(got))
    assert "divided" in as_text(got) and got.to_json()["mixed"]["ms"] == ms


def test_a_gpu_that_fell_back_is_no_comparison_and_the_backend_is_what_it_was(
    tmp_path: Path,
) -> None:
    model = Model(tmp_path)
    model.lost = "The GPU was lost."
    with pytest.raises(UserError, match="nothing to compare"):
        compared(model)
    assert model.backend == WASM


def test_transfer_plans_move_and_run_nothing() -> None:
    plans = transfer_plans(PLAN)
    up, down = plans[UPLOAD], plans[READBACK]
    assert (up.inputs, up.outputs) == (PLAN.inputs, ())
    assert (down.inputs, down.outputs) == (PLAN.outputs, PLAN.outputs)
    assert [s.op for s in up.steps] == [s.op for s in down.steps] == ["return"]
    assert up.arena_bytes == PLAN.arena_bytes and up.buffers == PLAN.buffers
