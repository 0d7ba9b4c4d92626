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

from nnjit_studio.errors import ModelError, PageError, UserError
from nnjit_studio.opened_model import OpenedModel
from nnjit_studio.profile import ModelProfile, findings, trace_events
from nnjit_studio.space.records import Inference, Tap
from nnjit_studio.workbench import Workbench


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
