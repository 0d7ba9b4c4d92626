"""The open model's profile and numerical diff, as the window asks for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from profiles import BANDWIDTH, DEVICE, GRAPH, MATMUL, PLAN, TRANSPOSE

from nnjit_studio.analysis.profile import ModelProfile, findings, trace_events
from nnjit_studio.errors import ModelError, PageError, UserError
from nnjit_studio.records import Inference, Tap
from nnjit_studio.tuner.events import FellBack
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.open_model import OpenedModel


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

    def cancel(self) -> None:
        pass

    def register(self, kernels: Any) -> None:
        pass


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    made = Workbench(tmp_path / "k.db")
    made.device = replace(DEVICE, timer_quantum_ms=0.005)
    weights = tmp_path / "w.bin"
    weights.write_bytes(b"")
    made.model = OpenedModel(
        tmp_path / "g.onnx", GRAPH, (MATMUL, TRANSPOSE), PLAN, weights, frozenset()
    )
    made._registered = True
    monkeypatch.setattr(made, "runner", Page())
    monkeypatch.setattr(made, "bandwidth_gbs", lambda: BANDWIDTH)
    monkeypatch.setattr(made, "onnx_nodes", lambda: [("MatMul", ("p",)), ("MatMul_1", ("y",))])
    buffers = {"p": 1, "y": 3}

    def reference(names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        return {n: np.full((8, 8), buffers[n], np.float32) for n in names}

    monkeypatch.setattr(made, "onnx_tensors", reference)
    yield made
    made.close()


def test_the_profile_is_of_the_open_model_as_it_runs(bench: Workbench) -> None:
    phases: list[str] = []
    found = bench.profile(phases.append, runs=5)
    assert [step.node for step in found.steps] == ["product", "turn", "second"]
    assert (found.warm.median_ms, found.warm.runs, found.steps_ms) == (2.0, 5, 1.9)
    assert found.memory.wasm_bytes == 65536 and found.memory.renderer_bytes is None
    assert phases == ["warming up", "timing whole runs", "timing every step"]
    page: Any = bench.runner
    assert page.asked == [(1, False), (150, False), (5, False), (5, True)]
    assert bench.model is not None and bench.model.graph is GRAPH, "it is not opened anew"
    assert not found.cold_ms
    assert ModelProfile.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert trace_events(found)["traceEvents"]
    assert not any("first output" in line for line in findings(found))


def test_kernels_are_registered_where_none_are(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Callable[[str], None]] = []
    monkeypatch.setattr(bench, "register_best", told.append)
    bench._registered = False
    bench.profile()
    bench.diff()
    assert len(told) == 2


def test_the_diff_is_of_the_open_model_and_of_one_step(bench: Workbench) -> None:
    page: Any = bench.runner
    page.off = 0.5
    found = bench.diff()
    assert [t.tensor for t in found.tensors] == ["p", "y"] and found.bad[0].node == "product"
    assert [t.tensor for t in bench.diff("second").tensors] == ["y"]


@pytest.mark.parametrize("job", ["profile", "diff"])
def test_cancelling_is_one_sentence_and_costs_nothing(bench: Workbench, job: str) -> None:
    page: Any = bench.runner

    def cancelled() -> None:
        bench.cancel()
        raise PageError("cancelled")

    page.during = cancelled
    with pytest.raises(UserError, match="was cancelled"):
        getattr(bench, job)()
    page.during = lambda: None
    assert getattr(bench, job)()


@pytest.mark.parametrize("job", ["profile", "diff"])
def test_an_error_of_the_page_stays_what_it_is(bench: Workbench, job: str) -> None:
    page: Any = bench.runner

    def lost() -> None:
        raise PageError("The page closed its connection.")

    page.during = lost
    with pytest.raises(PageError, match="closed its connection"):
        getattr(bench, job)()


@pytest.mark.parametrize("job", ["profile", "diff"])
def test_without_a_model_the_next_step_is_told(tmp_path: Path, job: str) -> None:
    bench = Workbench(tmp_path / "k.db")
    with pytest.raises(UserError, match=r"No model is open\. .*Open an"):
        getattr(bench, job)()
    bench.close()


def test_cancelling_ends_a_reference_that_takes_long(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = threading.Event()
    monkeypatch.setattr(bench.compiler, "kill", killed.set)

    def slow() -> None:
        bench.cancel()
        assert killed.wait(5), "the compile process is ended"
        raise ModelError("Opening 'g.onnx' in native ONNX Runtime ended its process.")

    monkeypatch.setattr(bench, "onnx_nodes", slow)
    with pytest.raises(UserError, match="The comparison was cancelled"):
        bench.diff()


def test_a_model_that_was_never_run_is_profiled_with_its_cold_start(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "kernels", lambda tiers: [])
    opened, loaded = [], []
    model = bench.model
    assert model is not None

    def import_model(path: Path, on_phase: Callable[[str], None]) -> OpenedModel:
        on_phase("reading the model")
        opened.append(path)
        return replace(model, weights=path.with_suffix(f".{len(opened)}.bin"))

    def load(found: OpenedModel, on_phase: Callable[[str], None]) -> None:
        on_phase("waiting for the page")
        on_phase("loading weights into the page")
        loaded.append(found)

    monkeypatch.setattr(bench, "import_model", import_model)
    monkeypatch.setattr(bench, "_load", load)
    bench.open_model(model.path)
    phases = [
        "reading the model", "loading weights into the page", "compiling kernels",
        "registering kernels in the page", "first run",
    ]  # fmt: skip
    first = bench.profile()
    assert list(first.cold_ms) == phases and first.cold_ms["first run"] == 2.0
    assert bench.profile().cold_ms == first.cold_ms, "it started cold once"
    bench.open_model(model.path)
    bench.register_best()
    assert bench.profile().cold_ms == {}, "something else ran it first"
    events = bench.events = [FellBack(0.0, "x", "embedded")]
    again = bench.profile(cold=True)
    assert list(again.cold_ms) == phases and bench.events is events
    assert opened == [model.path] * 3 and len(loaded) == 3


def test_the_page_is_lent_and_taken_back_when_the_model_is_needed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "kernels", lambda tiers: [])
    loaded: list[Any] = []
    held: list[Any] = [bench.model.plan if bench.model else None]
    runner: Any = bench.runner
    runner.holds = lambda plan: held[0] is plan
    runner.load = lambda plan, weights: loaded.append(plan)
    bench.lend_page()
    bench.profile()
    assert loaded == [], "nothing else was loaded meanwhile"
    bench.lend_page()
    held[0] = None
    bench.profile()
    bench.profile()
    assert loaded == [bench.model.plan if bench.model else None], "once"
