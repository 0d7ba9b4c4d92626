"""Inputs at several sizes, and the table of what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tuner_fakes import DEVICE, FakeClock

from nnjit_studio.analysis.profile.sizes import SizeRow, SizesProfile
from nnjit_studio.errors import PageError, UserError
from nnjit_studio.model import Graph
from nnjit_studio.model.survey import InputPort, Survey
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.inputs.sizes import sized
from nnjit_studio.workbench.jobs import profile_sizes_beside, size_tuning, sizes, tune_sizes
from nnjit_studio.workbench.open_model import size_name


def survey(*inputs: InputPort) -> Survey:
    return Survey(Path("m.onnx"), "0", 0, 17, inputs, Graph("m", (), (), (), {}), {})


TEXT = survey(
    InputPort("ids", "int64", ("batch", "sequence")),
    InputPort("mask", "int64", ("batch", "sequence")),
)
PICTURE = survey(InputPort("x", "float32", (1, 3, "height", "width"), channels=3, window=2))


def test_sizes_without_a_name_are_of_the_dimension_that_is_no_batch() -> None:
    found = sized(TEXT, {"": (1, 16)})
    assert [each.sizes for each in found] == [
        {"batch": 1, "sequence": 1}, {"batch": 1, "sequence": 16}
    ]  # fmt: skip
    assert found[1].arrays["mask"].shape == (1, 16)
    assert sized(survey(InputPort("x", "float32", ("n", 4))), {"": (7,)})[0].sizes == {"n": 7}


def test_several_dimensions_change_together() -> None:
    found = sized(PICTURE, {"height": (32, 64), "width": (96,)})
    assert [each.arrays["x"].shape for each in found] == [(1, 3, 32, 96), (1, 3, 64, 96)]


def test_given_arrays_lend_their_numbers_and_their_other_sizes() -> None:
    ids = np.arange(6).reshape(2, 3)
    (found,) = sized(TEXT, {"sequence": (4,)}, {"ids": ids, "mask": np.ones_like(ids)})
    assert found.sizes == {"batch": 2, "sequence": 4}
    assert found.arrays["ids"].tolist() == [[0, 1, 2, 3], [4, 5, 0, 1]]


@pytest.mark.parametrize(
    ("model", "wanted", "told"),
    [
        (PICTURE, {"": (32,)}, "several open dimensions: height, width"),
        (PICTURE, {"depth": (32,)}, "depth is no open dimension"),
        (PICTURE, {"height": (32, 64), "width": (32, 64, 96)}, "different numbers of sizes"),
        (TEXT, {"": (1,), "sequence": (2,)}, "sequence has its sizes twice"),
        (TEXT, {"": (16, 8, 16)}, "The size sequence = 16 stands there twice"),
        (survey(InputPort("x", "float32", (1, 4))), {"": (1,)}, "leaves no size open"),
    ],
)
def test_what_does_not_fit_is_refused(
    model: Survey, wanted: dict[str, tuple[int, ...]], told: str
) -> None:
    with pytest.raises(UserError, match=told):
        sized(model, wanted)


def test_the_table_names_what_changes_alone() -> None:
    rows = tuple(
        SizeRow(
            {"batch": 1, "sequence": n}, Estimate(n, n / 2, n * 2, 5), 3.0 * n, n << 20, n << 19
        )
        for n in (16, 64)
    )
    text = SizesProfile("m", "chromium", "", 2, "simd128", rows, ("A note.",)).as_text()
    head, _, columns, first, second, *_ = text.splitlines()
    assert head == "m at batch=1, chromium, simd128, threads 2"
    assert columns.split()[:2] == ["sequence", "ms"]
    assert first.split() == ["16", "16.000", "8.000", "to", "32.000", "48.000", "16.0", "8.0"]
    assert second.split()[0] == "64" and text.endswith("A note.")


def test_shares_and_a_bundle_for_one_size_are_columns_where_they_are_known() -> None:
    size = SizeRow({"n": 8}, Estimate(4, 2, 8, 5), 9.0, 1 << 20, 1 << 19)
    alone = Interval(1.25, 1.1, 1.5)
    rows = (replace(size, share=0.75, alone=alone), replace(size, sizes={"n": 9}, share=0.25))
    found = SizesProfile("m", "chromium", "", 2, "simd128", rows, ())
    lines = found.as_text().splitlines()
    assert "share" in lines[2] and "one size alone" in lines[2]
    assert lines[3].endswith("75.0 %  1.25x, 1.10 to 1.50")
    assert lines[4].rstrip().endswith("25.0 %")
    assert found.mean_ms == 4 and rows[0].alone_ms == 3.2 and rows[1].alone_ms is None


def test_the_open_model_is_put_back_whatever_becomes_of_its_sizes() -> None:
    calls: list[tuple[str, object]] = []
    feeds = {"x": np.zeros((1, 3, 32, 32), np.float32)}

    def refuse(path: Path, inputs: object, on_phase: object) -> None:
        raise UserError("No program for all of these sizes was found.")

    def reopen(path: Path, on_phase: object, given: object) -> None:
        calls.append((path.name, given))
        model.events = ()

    model = SimpleNamespace(feeds=feeds, events=("of its own session",))
    page = SimpleNamespace(process=SimpleNamespace(survey=lambda path: PICTURE), ended=False)
    bench: Any = SimpleNamespace(model=model, page=page, open_sizes=refuse, open_model=reopen)
    with pytest.raises(UserError, match="No program"):
        profile_sizes_beside(bench, Path("m.onnx"), {"height": (32, 64)})
    assert calls == [("m.onnx", feeds)] and model.events == ("of its own session",)
    page.ended = True
    with pytest.raises(UserError, match="No program"):
        profile_sizes_beside(bench, Path("m.onnx"), {"height": (32, 64)})
    assert len(calls) == 1, "nobody waits for a model in a window that closes"


class Runner:
    """Of a page that runs nothing, as one that was told to."""

    cancels = 0

    def cancel(self) -> None:
        self.cancels += 1


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    """A workbench whose page takes two sizes and is asked to run them."""
    bench = Workbench(tmp_path / "k.db")
    page: Any = bench.page
    page.runner, page.device = Runner(), DEVICE
    monkeypatch.setattr(page.process, "survey", lambda path: PICTURE)
    monkeypatch.setattr(bench, "open_sizes", lambda *_: (SimpleNamespace(), ()))
    monkeypatch.setattr(bench.model, "register_best", lambda on_phase: None)
    yield bench
    bench.close()


def test_a_size_says_how_many_of_its_kernels_were_measured_there(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = [SimpleNamespace(key=key, tunable=key != "softmax") for key in ("a", "b", "softmax")]
    program = SimpleNamespace(workloads=kernels)
    states = {"a": "slower", "b": "default"}
    monkeypatch.setattr(bench.model, "opened", SimpleNamespace(program=lambda name: program))
    monkeypatch.setattr(bench.page, "connect", lambda: DEVICE)
    monkeypatch.setattr(
        sizes.KernelKey, "of", lambda workload, *_: workload.key
    )  # its other parts are the same
    monkeypatch.setattr(bench.database, "records", lambda key: [SimpleNamespace(state=states[key])])
    assert sizes._tuned(bench.model, 0) == (1, 2)


@pytest.mark.parametrize("stop", ["cancel", "end"])
def test_cancelling_ends_what_is_being_timed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    reopened = []

    def infer_on(*_: object) -> None:
        getattr(bench.page, stop)()
        raise PageError("cancelled")

    monkeypatch.setattr(bench.model, "infer_on", infer_on)
    monkeypatch.setattr(bench, "open_model", lambda *given: reopened.append(given))
    with pytest.raises(UserError, match="Measuring the sizes was cancelled"):
        profile_sizes_beside(bench, Path("m.onnx"), {"height": (32, 64)})
    assert bench.page.runner.cancels == 1  # type: ignore[attr-defined]
    assert len(reopened) == (stop == "cancel"), "a window that closes needs no model"


def test_nothing_begins_on_a_page_that_has_ended(bench: Workbench) -> None:
    bench.page.end()
    with pytest.raises(UserError, match="closing"), bench.page.working():
        raise AssertionError("this is not reached")
    with pytest.raises(UserError, match="closing"):
        bench.page.begin()
    assert bench.page.cancelled, "what asks in between ends too"


def test_a_cancelled_tuning_compares_nothing(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = SimpleNamespace(workloads=())
    opened = SimpleNamespace(program=lambda name: imported, graph=SimpleNamespace(name="m"))
    monkeypatch.setattr(bench, "open_sizes", lambda *_: (opened, ()))

    def session(*_: object, **given: object) -> Iterator[object]:
        bench.page.begin()
        yield "an event"
        bench.page.cancel()

    monkeypatch.setattr(bench.tuning, "start", session)
    events = tune_sizes(bench, Path("m.onnx"), {"height": (32, 64)})
    assert next(events) == "an event"  # type: ignore[comparison-overlap]
    with pytest.raises(UserError, match="Tuning the sizes was cancelled"):
        next(events)


def test_sizes_that_were_tuned_are_compared_for_bundles(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = [SimpleNamespace(workloads=(SimpleNamespace(uses=2, flops=n),)) for n in (8, 32)]
    programs = {size_name(i): work for i, work in enumerate(works)}
    opened = SimpleNamespace(programs=programs, program=programs.get, families=("one",))
    asked: list[object] = []
    monkeypatch.setattr(bench.model, "opened", opened)
    monkeypatch.setattr(bench.tuning, "start", lambda seconds: asked.append(seconds) or ())

    def compare(model: object, shares: object, tuned: int, *_: object) -> object:
        asked.extend((shares, tuned))
        return ("a kernel",), ("matmul:?x8x8:f32",)

    monkeypatch.setattr(sizes, "compare_sizes", compare)
    notes = sizes._tune(bench, sizes.SizesEffort(10.0), lambda text: None)
    assert asked == [6.0, (0.5, 0.5), 1]
    assert notes[0].startswith("Settings of 1 kernels") and "no time for 1 more" in notes[1]
    opened.families = ()
    assert (
        sizes._tune(bench, sizes.SizesEffort(10.0), lambda text: None) == () and asked[-1] == 10.0
    )


def test_what_a_session_leaves_is_for_comparing(monkeypatch):
    clock, asked = FakeClock(), []

    def session(seconds):
        clock.now_s += seconds / 2
        return iter(())

    page = SimpleNamespace(backend=SimpleNamespace(is_gpu=False), cancelled=False)
    current = SimpleNamespace(families=["f"], programs=["16", "32"])
    bench = SimpleNamespace(
        page=page,
        model=SimpleNamespace(current=current),
        tuning=SimpleNamespace(start=session),
    )
    monkeypatch.setattr(size_tuning, "SystemClock", lambda: clock)
    monkeypatch.setattr(sizes, "heaviest", lambda opened, shares: 0)
    monkeypatch.setattr(
        sizes, "compare_sizes", lambda *given: asked.append(given[3].rounds_s()) or ((), ())
    )
    sizes._tune(bench, sizes.SizesEffort(60.0), str)
    assert asked == [pytest.approx(60.0 * (1 - sizes.TUNING_SHARE / 2))]
