"""The open model's profile and numerical diff, as the window asks for them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from profiles import BANDWIDTH, DEVICE, GRAPH, MATMUL, PLAN, TRANSPOSE

from nnjit_studio.analysis.profile.findings import findings
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.analysis.profile.trace import trace_events
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.errors import ModelError, PageError, UserError
from nnjit_studio.records import Inference, Pulse, Tap
from nnjit_studio.tuner.events import FellBack
from nnjit_studio.workbench import Workbench, tuning
from nnjit_studio.workbench import workbench as module
from nnjit_studio.workbench.jobs import compare_backends, diff, profile
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import OpenModel


class Page:
    """A runner whose tensors are all their buffer's number, 64 of them."""

    memory_bytes = 65536

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool]] = []
        self.during: Callable[[], None] = lambda: None
        self.off = 0.0

    def infer(
        self, feeds: Any, runs: int = 1, profile: bool = False, least_step_ms: float = 0.0
    ) -> Inference:
        self.asked.append((runs, profile))
        self.during()
        return Inference({}, (2.0,) * runs, (1.0, 0.5, 0.4) if profile else ())

    def tap(self, feeds: Any, taps: Sequence[Tap]) -> list[bytes]:
        self.during()
        return [np.full(64, t.buffer + self.off, np.float32).tobytes() for t in taps]

    def pulse(self, tier: str) -> Pulse:
        peak = DEVICE.peak_gflops[tier]
        return Pulse(peak, throughput=0.4 * peak)

    def cancel(self) -> None:
        pass

    def register(self, kernels: Any, only: bool) -> None:
        pass

    def holds(self, plan: Any) -> bool:
        return True


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    made = Workbench(tmp_path / "k.db")
    made.page.device = replace(DEVICE, timer_quantum_ms=0.005)
    weights = tmp_path / "w.bin"
    weights.write_bytes(b"")
    program = ImportedModel(GRAPH, (MATMUL, TRANSPOSE), PLAN, frozenset(), weights)
    made.model.adopt(OpenModel.static(tmp_path / "g.onnx", program))
    made.model.registered = True
    monkeypatch.setattr(made.page, "runner", Page())
    monkeypatch.setattr(made.page, "bandwidth_gbs", lambda: BANDWIDTH)
    nodes = [("MatMul", ("p",)), ("MatMul_1", ("y",))]
    monkeypatch.setattr(made.process, "open_reference", lambda path: nodes)
    buffers = {"p": 1, "y": 3}

    def reference(feeds: object, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        return {n: np.full((8, 8), buffers[n], np.float32) for n in names}

    monkeypatch.setattr(made.process, "reference_tensors", reference)
    yield made
    made.close()


def test_the_profile_is_of_the_open_model_as_it_runs(bench: Workbench) -> None:
    phases: list[str] = []
    found = profile(bench.model, phases.append, runs=5)
    assert [step.node for step in found.steps] == ["product", "turn", "second"]
    assert (found.warm.median_ms, found.warm.runs, found.steps_ms) == (2.0, 5, 1.9)
    assert found.memory.wasm_bytes == 65536 and found.memory.renderer_bytes is None
    assert phases == ["warming up", "timing whole runs", "timing every step"]
    page: Any = bench.page.runner
    assert page.asked == [(1, False), (150, False), (5, False), (5, True)]
    assert bench.model.current.graph is GRAPH, "it is not opened anew"
    assert not found.cold_ms
    assert found.machine_rate == pytest.approx(0.4), "the machine is looked at"
    assert ModelProfile.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert trace_events(found)["traceEvents"]
    assert not any("page starts" in line for line in findings(found))


def test_kernels_are_registered_where_none_are(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Callable[[str], None]] = []
    monkeypatch.setattr(bench.model, "register_best", told.append)
    bench.model.registered = False
    profile(bench.model)
    diff(bench.model)
    assert len(told) == 2


def test_the_diff_is_of_the_open_model_and_of_one_step(bench: Workbench) -> None:
    page: Any = bench.page.runner
    page.off = 0.5
    found = diff(bench.model)
    assert [t.tensor for t in found.tensors] == ["y", "p"] and found.bad[0].node == "product"
    assert [t.tensor for t in diff(bench.model, "second").tensors] == ["y"]


@pytest.mark.parametrize("job", [profile, diff])
def test_cancelling_is_one_sentence_and_costs_nothing(
    bench: Workbench, job: Callable[..., Any]
) -> None:
    page: Any = bench.page.runner

    def cancelled() -> None:
        bench.page.cancel()
        raise PageError("cancelled")

    page.during = cancelled
    with pytest.raises(UserError, match="was cancelled"):
        job(bench.model)
    page.during = lambda: None
    assert job(bench.model)


@pytest.mark.parametrize("job", [profile, diff])
def test_an_error_of_the_page_stays_what_it_is(bench: Workbench, job: Callable[..., Any]) -> None:
    page: Any = bench.page.runner

    def lost() -> None:
        raise PageError("The page closed its connection.")

    page.during = lost
    with pytest.raises(PageError, match="closed its connection"):
        job(bench.model)


@pytest.mark.parametrize("job", [profile, diff, compare_backends])
def test_without_a_model_the_next_step_is_told(tmp_path: Path, job: Callable[..., Any]) -> None:
    bench = Workbench(tmp_path / "k.db")
    with pytest.raises(UserError, match=r"No model is open\. .*Open an"):
        job(bench.model)
    bench.close()


def test_cancelling_ends_a_reference_that_takes_long(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = threading.Event()
    monkeypatch.setattr(bench.process, "kill", killed.set)

    def slow(path: Path) -> None:
        bench.page.cancel()
        assert killed.wait(60), "the compile process is ended"
        raise ModelError("Opening 'g.onnx' in native ONNX Runtime ended its process.")

    monkeypatch.setattr(bench.process, "open_reference", slow)
    with pytest.raises(UserError, match="The comparison was cancelled"):
        diff(bench.model)


def test_stopping_a_session_ends_a_reference_that_takes_long(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, tried = threading.Event(), []

    def kill() -> bool:
        """An inspection runs when it is asked first."""
        tried.append(None)
        if len(tried) > 1:
            killed.set()
        return killed.is_set()

    monkeypatch.setattr(bench.process, "kill_reference", kill)
    monkeypatch.setattr(tuning, "STOP_S", 0.0)

    def programs(options: object, *_: object) -> Iterator[object]:
        bench.page.begin()
        bench.page.cancel()
        assert killed.wait(60), "the compile process is ended"
        yield from ()

    monkeypatch.setattr(bench.tuning, "_programs", programs)
    assert not list(bench.tuning.start(1.0))


def test_a_model_that_was_never_run_is_profiled_with_its_cold_start(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.model, "kernels", lambda tiers: [])
    opened, loaded = [], []
    model = bench.model.current

    def import_model(
        page: object, path: Path, on_phase: Callable[[str], None], feeds: object
    ) -> OpenModel:
        on_phase("reading the model")
        opened.append(path)
        weights = path.with_suffix(f".{len(opened)}.bin")
        return OpenModel.static(path, replace(model.program(), weights=weights))

    def load(found: OpenModel, on_phase: Callable[[str], None]) -> None:
        on_phase("waiting for the page")
        on_phase("loading weights into the page")
        loaded.append(found)

    monkeypatch.setattr(module, "import_model", import_model)
    monkeypatch.setattr(sys.modules[profile.__module__], "import_model", import_model)
    monkeypatch.setattr(bench.model, "load", load)
    bench.open_model(model.path)
    phases = [
        "reading the model", "loading weights into the page", "compiling kernels",
        "registering kernels in the page", "first run",
    ]  # fmt: skip
    first = profile(bench.model)
    assert list(first.cold_ms) == phases and first.cold_ms["first run"] == 2.0
    assert profile(bench.model).cold_ms == first.cold_ms, "it started cold once"
    bench.open_model(model.path)
    bench.model.register_best()
    assert profile(bench.model).cold_ms == {}, "something else ran it first"
    events = bench.model.events = [FellBack(0.0, "x", "embedded")]
    again = profile(bench.model, cold=True)
    assert list(again.cold_ms) == phases and bench.model.events is events
    assert opened == [model.path] * 3 and len(loaded) == 3


def test_the_page_is_lent_and_taken_back_when_the_model_is_needed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.model, "kernels", lambda tiers: [])
    loaded: list[Any] = []
    held: list[Any] = [bench.model.current.plan]
    other = ModelOnPage(bench.page)
    runner: Any = bench.page.runner

    def load(plan: Any) -> None:
        held[0] = plan
        loaded.append(plan)

    runner.holds = lambda plan: held[0] is plan
    runner.load = lambda plan, weights, others, mixed: load(plan)
    bench.page.hand_to(other)
    profile(bench.model)
    assert loaded == [], "nothing else was loaded meanwhile"
    bench.page.hand_to(other)
    held[0] = None
    profile(bench.model)
    profile(bench.model)
    assert loaded == [bench.model.current.plan], "once"
