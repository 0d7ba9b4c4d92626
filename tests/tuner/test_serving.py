"""Tuning beside a model that serves: link, session, benchmark. The page keeps the budget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_page import FakePage, fake_page
from test_page_runner import FEEDS, KERNEL, MEASURED, PROBED, plan, says
from tuner_fakes import Stage

from nnjit_studio.bench.tuner.serving import ENOUGH, compared, latencies
from nnjit_studio.bench.tuner.tables import serving_report
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.errors import BugError, PageError, UserError
from nnjit_studio.records import MeasurePolicy
from nnjit_studio.records.serving import ServeOptions, ServingStats
from nnjit_studio.tuner.events import Finished, ModelTimed, Served

SERVED = {
    "type": "served",
    "latencies_ms": [10, 12.5, 70.0],
    "generations": [0, 0, 1],
    "touched": [False, False, True],
    "elapsed_ms": 200.0,
    "tuning_ms": 50.0,
    "reference_p95_ms": None,
    "error": "",
}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def loaded(hub: Hub, tmp_path: Path) -> PageRunner:
    weights = tmp_path / "empty.bin"
    weights.write_bytes(b"")
    runner = PageRunner(hub, "fake")
    runner.load(plan(), weights)
    return runner


def answers(**served: Any) -> Any:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        page.reply(header, {**SERVED, **served} if header["type"] == "served" else {"type": "ok"})

    return answer


def test_the_page_serves_the_given_inputs_and_tells_what_it_took(hub: Hub, tmp_path: Path) -> None:
    with fake_page(hub, answers()) as page:
        runner = loaded(hub, tmp_path)
        runner.serve(FEEDS, ServeOptions(interval_ms=20, budget=None))
        stats = runner.served()
        runner.stop_serving()
    header, blobs = page.seen[1]
    assert (header["type"], header["interval_ms"], header["budget"]) == ("serve", 20, None)
    assert [tensor["name"] for tensor in header["inputs"]] == ["x", "mask"]
    assert bytes(blobs[0]) == FEEDS["x"].tobytes()
    assert [h["type"] for h, _ in page.seen[2:]] == ["served", "serve_stop"]
    assert stats.latencies_ms == (10, 12.5, 70.0)
    assert stats.generations == (0, 0, 1)
    assert stats.touched == (False, False, True)
    assert stats.duty == 0.25
    assert stats.reference_p95_ms is None
    assert stats.percentile(50) == 12.5


def test_serving_wants_a_model_and_its_inputs(hub: Hub, tmp_path: Path) -> None:
    with fake_page(hub, answers()) as page:
        with pytest.raises(BugError, match="before a model was loaded"):
            PageRunner(hub, "fake").serve(FEEDS, ServeOptions())
        with pytest.raises(UserError, match="'mask' is missing"):
            loaded(hub, tmp_path).serve({"x": FEEDS["x"]}, ServeOptions())
    assert [h["type"] for h, _ in page.seen] == ["load"]


def test_a_model_that_stopped_serving_is_an_error(hub: Hub, tmp_path: Path) -> None:
    with fake_page(hub, answers(error="A kernel failed.")):
        runner = loaded(hub, tmp_path)
        with pytest.raises(PageError, match=r"stopped serving: A kernel failed\."):
            runner.served()


@pytest.mark.parametrize(
    ("answer", "call", "field"),
    [
        (PROBED, lambda r: r.probe(), "cores"),
        (PROBED, lambda r: r.probe(), "peak_gflops"),
        (PROBED, lambda r: r.probe(), "simd"),
        (MEASURED, lambda r: r.measure(KERNEL, None, MeasurePolicy()), "samples_ms"),
        (MEASURED, lambda r: r.measure(KERNEL, None, MeasurePolicy()), "error_ratio"),
        (MEASURED, lambda r: r.measure(KERNEL, None, MeasurePolicy()), "error"),
        (SERVED, lambda r: r.served(), "latencies_ms"),
        (SERVED, lambda r: r.served(), "touched"),
    ],
)
def test_a_malformed_reply_names_its_field(
    hub: Hub, answer: dict[str, Any], call: Any, field: str
) -> None:
    absent = {name: item for name, item in answer.items() if name != field}
    broken = [absent, {**absent, field: {"a": "b"}}, {**absent, field: [None]}]
    with fake_page(hub, lambda page, header, blobs: page.reply(header, broken[-1])):
        while broken:
            with pytest.raises(PageError, match=f"malformed: .*{field}"):
                call(PageRunner(hub, "fake"))
            broken.pop()


def test_outputs_that_are_not_described_are_refused(hub: Hub, tmp_path: Path) -> None:
    broken = says(type="inferred", outputs=[{"name": "y"}], runs_ms=[1.0])
    with fake_page(hub, broken):
        runner = loaded(hub, tmp_path)
        with pytest.raises(PageError, match="other outputs"):
            runner.infer(FEEDS)
    with Hub() as other, fake_page(other, says(type="inferred", runs_ms=[1.0])):
        runner = loaded(other, tmp_path)
        with pytest.raises(PageError, match=r"malformed: .*outputs"):
            runner.infer(FEEDS)


def test_a_session_asks_a_serving_model_instead_of_running_it() -> None:
    stage = Stage()
    asked = []

    def served() -> ServingStats:
        asked.append(stage.clock.now_s)
        return ServingStats((40.0, 50.0), (0, 0), (False, True), 100.0, 25.0, 51.0)

    events = list(stage.session(seconds=5, served=served).run())
    seen = [e for e in events if isinstance(e, Served)]
    assert isinstance(events[-1], Finished)
    assert len(seen) == len(asked) > 4
    assert (seen[0].inferences, seen[0].p50_ms, seen[0].duty) == (2, 45.0, 0.25)
    assert seen[0].p95_reference_ms == 51.0
    assert stage.runner.inferences == 2, "one to profile it before, one after"
    timed = [e for e in events if isinstance(e, ModelTimed)]
    assert [e.runs_ms for e in timed] == [(40.0, 50.0)] * 2
    assert timed[0].steps_ms
    assert events[-1].model_ms["before"] == 45.0


def test_full_speed_serving_that_served_nothing_is_timed_by_its_profile() -> None:
    stage = Stage()
    events = list(stage.session(seconds=3, served=ServingStats).run())
    assert isinstance(events[-1], Finished)
    assert events[-1].model_ms["before"] > 0


def test_percentiles_of_nothing_are_zero() -> None:
    assert ServingStats().percentile(95) == 0
    assert ServingStats().duty == 0
    assert latencies([]) == {"inferences": 0, "p50_ms": 0, "p95_ms": 0, "p99_ms": 0, "max_ms": 0}


def test_swaps_do_not_confound_the_comparison() -> None:
    """Kernels that became three times faster while tuning must not hide a slower p95."""
    rng = np.random.default_rng(0)
    alone = {0: list(90 + rng.random(200)), 1: list(30 + rng.random(200))}
    on = {0: list(90 + rng.random(50)), 1: list(33 + rng.random(500)), 2: [5.0] * (ENOUGH - 1)}
    result = compared(on, alone)
    first, second = result["generations"]
    assert first["p95_ratio"] == pytest.approx(1, abs=0.01)
    assert second["p95_ratio"] == pytest.approx(1.1, abs=0.02)
    assert result["p95_ratio"] == pytest.approx(1.1, abs=0.03)
    assert result["covered"] == pytest.approx(550 / (550 + ENOUGH - 1))
    assert compared({0: [1.0]}, {0: [1.0]})["p95_ratio"] is None


def test_the_table_of_the_benchmark() -> None:
    side = {**latencies([1.0, 2.0]), "seconds": 2.0, "rounds": 4, "rounds_per_s": 2.0}
    result = {
        "date": "2026-11-21T10:00:00Z",
        "cpu": "a cpu",
        "cores": 2,
        "versions": {"nnjit-studio": "0"},
        "load_average": {"before": [0.1], "after": [0.2]},
        "model": "m.onnx",
        "threads": 1,
        "interval_ms": 0.0,
        "budget": 0.05,
        "off": side,
        "on": side,
        "full_speed": side,
        "swaps": 3,
        **compared({0: [1.0] * ENOUGH}, {0: [1.0] * ENOUGH}),
    }
    text = serving_report(result).text()
    assert "p95 without: 1.000" in text
    assert "2.00" in text
    written = serving_report(result).markdown()
    assert written.startswith("## 2026-11-21: tuning while m.onnx serves, 1 thread\n")
    assert "back to back, budget 5% of p95" in written
    nothing = serving_report({**result, **compared({}, {})}).text()
    assert "give more seconds" in nothing
