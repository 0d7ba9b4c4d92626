"""The workbench without a page: which winner counts, and what a failed opening leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tuner_fakes import BIG, DEVICE, TUNABLE, FakeClock, Stage

from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.device.host import device_id
from nnjit_studio.errors import PageError, UserError
from nnjit_studio.model import (
    NUMPY_DTYPES,
    Generation,
    Graph,
    Plan,
    PlanPort,
    PlanStep,
    TensorSpec,
    Workload,
)
from nnjit_studio.model.feeds import example_feeds
from nnjit_studio.records import KernelKey, TuningRecord
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.tuner import TunedModel, TuneOptions, TuningContext
from nnjit_studio.tuner.events import Event, Failed, SpaceBuilt, Swapped
from nnjit_studio.workbench import OpenModel, Workbench
from nnjit_studio.workbench import workbench as module
from nnjit_studio.workbench.jobs import explain, export
from nnjit_studio.workbench.open_model import MAIN, PREFILL
from nnjit_studio.workbench.spare_kernels import best_measured
from nnjit_studio.workbench.stored_best import stored_best

TILES = [Candidate(8, y, 4, 8, y, 64) for y in (2, 4, 6, 8)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    bench = Workbench(tmp_path / "k.db")
    yield bench
    bench.close()


def model_of(plan: Plan, weights: Path, workloads: tuple[Workload, ...] = ()) -> OpenModel:
    graph = Graph("m", (), (), (), {})
    program = ImportedModel(graph, workloads, plan, frozenset(), weights)
    return OpenModel.static(Path("m.onnx"), program)


def winner(bench: Workbench, candidate: Candidate, **key: str) -> TuningRecord:
    own = KernelKey.of(BIG, DEVICE, "relaxed-simd", bench.compiler.version)
    own = replace(own, **key)
    return TuningRecord(
        own, BIG.key, str(candidate), "won", 1.0, 1.0, (1.0,), "", b"", (), 1, 1.0, "", "", 0.1, ""
    )


def best(bench: Workbench) -> Candidate | None:
    return stored_best(bench.database, BIG, bench.page.here(bench.page.backend))


def test_the_winner_measured_most_like_here_counts(bench: Workbench) -> None:
    bench.page.device = DEVICE
    assert best(bench) is None
    records = [
        winner(bench, TILES[0]),
        winner(bench, TILES[1], target="chromium"),
        winner(bench, TILES[2], device_id="another"),
        winner(bench, TILES[3], compiler_version="0"),
    ]
    for newest, record in enumerate(records):
        bench.database.commit_record(record)
        assert best(bench) == TILES[0], newest
    bench.database.commit_record(winner(bench, TILES[2]))
    assert best(bench) == TILES[2]
    other = replace(winner(bench, TILES[3]), workload=f"batch_{BIG.key}")
    bench.database.commit_record(other)
    assert best(bench) == TILES[2], "a key is no part of another"


def test_without_a_page_the_newest_of_this_machine_counts(bench: Workbench) -> None:
    bench.database.commit_record(winner(bench, TILES[0], device_id=device_id()))
    bench.database.commit_record(winner(bench, TILES[1], device_id=device_id(), target="firefox"))
    bench.database.commit_record(winner(bench, TILES[2], device_id="another"))
    assert best(bench) == TILES[1]


def test_a_session_that_kept_the_default_keeps_it(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    stage.runner.wrong = lambda kernel: kernel.candidate is not None and BIG.key == kernel.workload
    monkeypatch.setattr(
        "nnjit_studio.workbench.tuning.TuningSession", lambda *given: stage.session(seconds=None)
    )
    bench.page.device = DEVICE
    monkeypatch.setattr(bench.page.runner, "holds", lambda plan: True)
    bench.model.adopt(model_of(stage.runner.plan, tmp_path / "w", TUNABLE))
    bench.database.commit_record(winner(bench, TILES[0], target="chromium"))
    assert bench.model.choose_known()[BIG.key] == TILES[0]
    events = list(bench.tuning.start())
    assert any(isinstance(e, SpaceBuilt) and e.workload == BIG.key for e in events)
    won = [e.candidate for e in events if isinstance(e, Swapped)]
    known = bench.model.choose_known()
    assert known[BIG.key] is None
    assert str(known[TUNABLE[1].key]) == won[-1]


def test_a_model_that_the_page_refuses_leaves_the_old_one(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [Plan(name, (), (), (), (), 0, 0) for name in ("old", "new")]
    old, new = (model_of(p, tmp_path / p.name) for p in plans)
    new.weights.touch()
    loaded = []

    def load(plan: Plan, weights: Path, others: object, mixed: object) -> None:
        loaded.append(plan.name)
        if plan.name == "new":
            raise PageError("The browser gives no memory.")

    monkeypatch.setattr(bench.page.runner, "load", load)
    monkeypatch.setattr(module, "import_model", lambda *given: new)
    bench.page.device = DEVICE
    bench.model.adopt(old)
    with pytest.raises(PageError, match="no memory"):
        bench.open_model(tmp_path / "new.onnx")
    assert bench.model.opened is old
    assert loaded == ["new", "old"]
    assert not new.weights.exists()


def test_a_model_that_no_page_can_hold_is_refused_before_it_is_sent(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def imported(path: Path, weights: Path, *rest: object) -> ImportedModel:
        weights.write_bytes(b"")
        plan = Plan("huge", (), (), (), (), 0, 2**32)
        return ImportedModel(Graph("huge", (), (), (), {}), (), plan, frozenset(), weights)

    monkeypatch.setattr(bench.process, "import_model", imported)
    with pytest.raises(UserError, match="a page's memory ends at 4096 MiB"):
        bench.open_model(tmp_path / "huge.onnx")
    assert not list(bench.page._folder.iterdir())


def test_example_feeds_have_the_dtypes_of_the_inputs() -> None:
    specs = [TensorSpec(dtype, (2, 3), dtype) for dtype in NUMPY_DTYPES]
    feeds = example_feeds(specs)
    assert {name: array.dtype for name, array in feeds.items()} == NUMPY_DTYPES
    assert all(array.shape == (2, 3) for array in feeds.values())
    assert (feeds["i64"] == 1).all() and feeds["bool"].all()
    assert len(set(feeds["f32"].ravel().tolist())) == 6


def test_the_rules_are_asked_without_waiting_for_a_page(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(*_: object) -> None:
        raise AssertionError("it waits for the page")

    monkeypatch.setattr(bench.page.hub, "wait_for_page", waits)
    plan = Plan("m", (), (), (), (), 0, 0)
    bench.model.adopt(model_of(plan, Path("w"), TUNABLE))
    key = TUNABLE[0].key
    with pytest.raises(UserError, match="device is not known yet"):
        explain(bench.model, key, str(TILES[0]))
    bench.page.device = DEVICE
    assert explain(bench.model, key, str(TILES[0]))


def test_a_decoder_is_tuned_program_by_program(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its part of the time that is left, inputs of its own shapes, and a page without
    kernels."""

    def program(rows: int, packable: str) -> ImportedModel:
        ids = PlanPort(TensorSpec("ids", (1, rows), "i64"), 0)
        plan = Plan(f"plan of {rows}", (ids,), (), (), (), 0, 0)
        return ImportedModel(Graph("g", (), (), (), {}), (), plan, frozenset({packable}), Path("w"))

    class Session:
        def __init__(
            self, model: TunedModel, context: TuningContext, options: TuneOptions, cancelled: Any
        ) -> None:
            self.given = model, options.seconds

        def run(self) -> Iterator[Event]:
            asked.append(self.given)
            yield Failed(1.0, {})

    class Runner:
        gone = None

        def holds(self, plan: Plan) -> bool:
            return True

        def for_plan(self, name: str) -> str:
            return name

        def register(self, kernels: object, only: bool) -> None:
            dropped.append(only)

    asked: list[Any] = []
    dropped: list[bool] = []
    bench.page.device = DEVICE
    monkeypatch.setattr("nnjit_studio.workbench.tuning.TuningSession", Session)
    monkeypatch.setattr("nnjit_studio.workbench.tuning.SystemClock", FakeClock)
    monkeypatch.setattr(bench.page, "runner", Runner())
    facts = Generation(64, 8, "ids", "mask", "logits")
    programs = {MAIN: program(1, "a"), PREFILL: program(8, "b")}
    opened = bench.model.adopt(OpenModel(Path("d.onnx"), programs, generation=facts))
    names = [bench.tuning.program for _ in bench.tuning.start(8.0)]
    assert names == [MAIN, PREFILL] and dropped == [True, True]
    assert [seconds for _, seconds in asked] == [4.0, 7.0], "the first one ended after a second"
    for (model, _), rows, packable in zip(asked, (1, 8), "ab", strict=True):
        assert model.plan.name == f"plan of {rows}" and model.feeds["ids"].shape == (1, rows)
        assert model.packable == {packable}
    assert opened.packable == {"a", "b"} and list(opened.other_plans) == [PREFILL]


def test_candidates_for_a_bundle_are_those_that_were_nearest_to_the_best_of_a_device(
    bench: Workbench,
) -> None:
    def timed(candidate: Candidate, ms: float, state: str = "slower", **key: str) -> TuningRecord:
        return replace(winner(bench, candidate, **key), median_ms=ms, state=state)

    records = [
        timed(TILES[0], 2.0),
        timed(TILES[1], 1.0, "won"),
        timed(TILES[0], 33.0, device_id="slow"),
        timed(TILES[2], 30.0, device_id="slow"),
        timed(TILES[2], 5.0),
        timed(TILES[3], 0.1, "wrong"),
        timed(TILES[3], 0.1, target="chromium+revectorize"),
    ]
    assert best_measured(records) == [*sorted([TILES[1], TILES[2]], key=str), TILES[0]]


def test_an_export_that_is_stopped_writes_nothing(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan("m", (), (), (), (PlanStep("return"),), 0, 0)
    (tmp_path / "weights").touch()
    bench.model.adopt(model_of(plan, tmp_path / "weights"))
    out = tmp_path / "m.nnjit.zip"
    assert export(bench.model, out) == out and out.exists()
    out.unlink()

    def stop(phase: str) -> None:
        if phase == "checking what was written":
            bench.page.cancel()

    with pytest.raises(UserError, match=r"^The export was cancelled"):
        export(bench.model, out, on_phase=stop)
    assert not out.exists()

    # The disk may take seconds of a large one.
    monkeypatch.setattr("os.fsync", lambda _: bench.page.cancel())
    with pytest.raises(UserError, match=r"^The export was cancelled"):
        export(bench.model, out)
    assert not out.exists()
