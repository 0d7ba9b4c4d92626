"""A session that pauses: its generator ends, all else may be done, and it goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tuner_fakes import DEVICE, TUNABLE, Stage

from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.errors import UserError
from nnjit_studio.model import Graph
from nnjit_studio.records.serving import ServeOptions
from nnjit_studio.tuner.events import Event, Finished, Paused, Resumed, RoundDone, SessionStarted
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.open_model import OpenModel


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    made = Workbench(tmp_path / "k.db")
    stage = Stage()
    monkeypatch.setattr(
        "nnjit_studio.workbench.tuning.TuningSession",
        lambda model, context, options, cancelled: stage.session(options.seconds, cancelled),
    )
    made.page.device = DEVICE
    monkeypatch.setattr(made.page.runner, "holds", lambda plan: True)
    graph, plan = Graph("m", (), (), (), {}), stage.runner.plan
    program = ImportedModel(graph, TUNABLE, plan, frozenset(), tmp_path / "w")
    made.model.adopt(OpenModel.static(tmp_path, program))
    yield made
    made.close()


def another_runner(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.page.use(bench.page.backend)
    bench.page.device = DEVICE
    monkeypatch.setattr(bench.page.runner, "holds", lambda plan: True)


def paused(bench: Workbench, after: int = 3, seconds: float | None = None) -> list[Event]:
    events: list[Event] = []
    for event in bench.tuning.start(seconds):
        events.append(event)
        if sum(isinstance(e, RoundDone) for e in events) == after and bench.tuning.pause():
            after = -1
    assert isinstance(events[-1], Paused)
    return events


def test_a_paused_session_goes_on_where_it_was(bench: Workbench) -> None:
    first = paused(bench)
    chosen = bench.model.choose_known()
    bench.model.choose(TUNABLE[0].key, None)
    bench.page.cancel()
    rest = list(bench.tuning.resume())
    assert isinstance(rest[0], Resumed) and isinstance(rest[-1], Finished)
    assert rest[-1].reason == "exhausted", "an older cancel is forgotten"
    assert not any(isinstance(e, SessionStarted) for e in rest)
    assert [*first, *rest] == list(bench.model.events)
    assert chosen[TUNABLE[0].key] is not None
    with pytest.raises(UserError, match="No tuning is paused"):
        list(bench.tuning.resume())
    assert not bench.tuning.pause()


def test_a_paused_session_pauses_again_and_may_be_cancelled(bench: Workbench) -> None:
    paused(bench)
    again = bench.tuning.resume()
    next(again)
    assert bench.tuning.pause()
    assert isinstance(list(again)[-1], Paused)
    going = bench.tuning.resume()
    next(going)
    bench.page.cancel()
    end = list(going)[-1]
    assert isinstance(end, Finished) and end.reason == "cancelled"


def test_a_paused_session_may_be_stopped(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    paused(bench)
    rest = list(bench.tuning.resume(stop=True))
    assert isinstance(rest[-1], Finished) and rest[-1].reason == "cancelled"
    assert not any(isinstance(e, RoundDone) for e in rest)
    paused(bench, 1)
    another_runner(bench, monkeypatch)
    assert list(bench.tuning.resume(stop=True)) == []


def test_with_another_runner_a_new_session_takes_the_rest_of_the_budget(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused(bench, 1, seconds=1000.0)
    assert bench.tuning.set_seconds_left(1.0)
    another_runner(bench, monkeypatch)
    events = list(bench.tuning.resume())
    end = events[-1]
    assert isinstance(events[0], SessionStarted)
    assert isinstance(end, Finished) and end.reason == "time"
    assert not bench.tuning.set_seconds_left(1.0)


def test_a_new_session_ends_the_one_that_paused(bench: Workbench) -> None:
    paused(bench)
    assert isinstance(next(iter(bench.tuning.start())), SessionStarted)
    with pytest.raises(UserError, match="No tuning is paused"):
        list(bench.tuning.resume())


def test_the_page_is_asked_to_keep_another_budget(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(bench.page.runner, "served", lambda **given: asked.append(given))
    monkeypatch.setattr(bench.page.runner, "serve", lambda feeds, options: asked.append(options))
    bench.model.registered = True
    bench.model.serve(ServeOptions(100.0, 0.05))
    bench.tuning.set_serving_budget(0.2)
    bench.model.served()
    assert asked == [ServeOptions(100.0, 0.05), {"budget": 0.2}]
    bench.model.serving = False
