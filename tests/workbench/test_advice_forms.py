"""Forms of the open model: what is imported anew for a row, and what is open already."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.measure import Form, Found
from nnjit_studio.advice.records import (
    BROKEN,
    IMPOSSIBLE,
    MEASURED,
    WAITING,
    Measurement,
    Row,
    with_row,
)
from nnjit_studio.errors import PageError, UserError
from nnjit_studio.model import GivenShapes, ImportOptions, Workload
from nnjit_studio.model.recipe import FOUR_BIT, INT8_DYNAMIC, Recipe
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.workbench import advice_forms
from nnjit_studio.workbench import model as model_on_page
from nnjit_studio.workbench.advice_forms import BASE, Made, form_of
from nnjit_studio.workbench.jobs import advice
from nnjit_studio.workbench.model import ModelOnPage


@pytest.fixture
def made(monkeypatch):
    """Which of both ways a row takes, with its threads."""
    monkeypatch.setattr(
        advice_forms, "of_file", lambda model, plain, folder, name: ("imported", plain.threads)
    )
    given = ImportOptions(GivenShapes({"n": 1}), half_weights=True)
    opened = SimpleNamespace(path=Path("m.onnx"), importing=given)
    model = SimpleNamespace(page=SimpleNamespace(threads=1), current=opened, feeds={})
    base = Made(Form(BASE, f"{BASE}/manifest.json", {}, ()), opened.path)

    def way(apply):
        found = form_of(model, Row("row", "Row", apply), Path(), base)
        return ("open", found.form.threads) if isinstance(found, Made) else found

    return way


def test_threads_take_what_is_open(made):
    assert made(Apply(threads=2)) == ("open", 2), "an import takes longer than the measurement"
    assert made(Apply(threads=2, half_weights=True)) == ("open", 2), "it has them already"


def test_another_import_is_made(made):
    assert made(Apply(direct=True)) == ("imported", 1)
    assert made(Apply(threads=2, ways={"merge": "off"})) == ("imported", 2)


MS = Interval(1.0, 1.0, 1.0)
BOTH = Found(
    Measurement(MS, MS), Measurement(MS, MS), outputs={"y": np.ones(2)},
    base_outputs={"y": np.ones(2)}, sentinel_ms=0.5, browser="b",
)  # fmt: skip

NO_THREADS = Found(refused="No threads.")
BROKEN_BASE = Found(refused="It fails.")


def measured_in(monkeypatch, founds, natives=None):
    """The advice on a model of two rows, and the forms that had a page of their own.

    ``natives`` is a list to which the number of pages is added when ONNX Runtime computes outputs.
    """
    visited = []

    def native(*_):
        if natives is not None:
            natives.append(len(visited))
        return {}

    base = Made(Form(BASE, f"{BASE}/manifest.json", {}, ()), Path("m.onnx"))

    def measure(folder, untouched, form, *_):
        visited.append(form.name)
        yield founds.get(form.name, BOTH)

    rows = [
        Row("threads", "Threads", Apply(threads=2)),
        Row("direct", "Direct", Apply(direct=True)),
    ]
    made = {row.name: replace(base, form=replace(base.form, name=row.name)) for row in rows}
    monkeypatch.setattr(advice, "_facts", lambda model, options: None)
    monkeypatch.setattr(advice, "rows_of", lambda facts: tuple(rows))
    monkeypatch.setattr(advice, "untouched", lambda model, folder: base)
    monkeypatch.setattr(advice, "form_of", lambda model, row, *_: made[row.name])
    monkeypatch.setattr(advice, "native_outputs", native)
    monkeypatch.setattr(advice, "measure", measure)
    monkeypatch.setattr(advice, "together", lambda rows: None)
    plan = SimpleNamespace(output_specs=["y"])
    opened = SimpleNamespace(
        generation=None, importing=ImportOptions(), programs=[1], path=Path("model"), plan=plan
    )
    page = SimpleNamespace(working=nullcontext, threads=1, cancelled=False)
    model = SimpleNamespace(current=opened, page=page, feeds={})
    return list(advice.advise(model, None))[-1], visited


def test_the_untouched_model_is_measured_in_the_first_rows_page(monkeypatch):
    """Its own page came before the first row, which waited for both."""
    told, visited = measured_in(monkeypatch, {})
    assert visited == ["threads", "direct"]
    assert told.base.ms == MS and told.base.outputs and told.reference == advice.OWN
    assert [row.state for row in told.rows] == [MEASURED] * 2


def test_the_first_page_does_not_wait_for_the_outputs_in_float32(monkeypatch):
    """They took 5 s before it; errors are told after a page."""
    natives = []
    measured_in(monkeypatch, {}, natives)
    assert natives == [1], "once, behind the first page"


def test_where_the_first_row_fails_the_untouched_model_has_a_page(monkeypatch):
    told, visited = measured_in(monkeypatch, {"threads": NO_THREADS})
    assert visited == ["threads", BASE, "direct"] and told.base.ms == MS
    assert [row.state for row in told.rows] == [IMPOSSIBLE, MEASURED]


def test_a_page_without_room_for_both_models_refuses_its_row_alone(monkeypatch):
    """It was told that the untouched model does not run, and all other rows were lost."""
    told, visited = measured_in(monkeypatch, {"direct": BROKEN_BASE})
    assert visited == ["threads", "direct"] and told.base.ms == MS
    assert [row.state for row in told.rows] == [MEASURED, IMPOSSIBLE]


@pytest.mark.parametrize("first", [BROKEN_BASE, NO_THREADS])
def test_an_untouched_model_that_does_not_run_ends_the_advice(monkeypatch, first):
    with pytest.raises(PageError, match="untouched model does not run: It fails"):
        measured_in(monkeypatch, {"threads": first, BASE: BROKEN_BASE})


def test_what_the_guard_refuses_ahead_is_measured_last(monkeypatch):
    outputs = {"model": 1.0, "int8": 1.5, "4-bit": 1.001}
    recipes = {"int8": Recipe(INT8_DYNAMIC), "4-bit": Recipe(FOUR_BIT)}
    rows = [Row("threads", "Threads", Apply(threads=2))]
    rows += [Row(name, name, Apply(recipe=recipe)) for name, recipe in recipes.items()]
    order, seen = [], {}

    def one(so_far, row, place, count=""):
        order.append(row.name)
        place.known = True
        yield so_far
        return with_row(so_far, row)

    monkeypatch.setattr(advice, "_facts", lambda model, options: None)
    monkeypatch.setattr(advice, "rows_of", lambda facts: tuple(rows))
    monkeypatch.setattr(advice, "untouched", lambda model, folder: None)
    monkeypatch.setattr(advice, "file_of", lambda model, row, *_: (Path(row.name), ""))
    monkeypatch.setattr(
        advice, "native_outputs", lambda m, path, *_: {"y": np.array([outputs[path.name]])}
    )
    monkeypatch.setattr(advice, "_one", one)
    plan = SimpleNamespace(output_specs=["y"])
    opened = SimpleNamespace(
        generation=None, importing=ImportOptions(), programs=[1], path=Path("model"), plan=plan
    )
    page = SimpleNamespace(working=nullcontext, threads=1, cancelled=False)
    model = SimpleNamespace(current=opened, page=page, feeds={})
    for step in advice.advise(model, None):
        seen[len(order)] = step
    assert order == ["threads", "4-bit", "int8"]
    told = seen[1].row("int8")
    assert told.state == WAITING and "off by 0.5 " in told.refusal, "told ahead of its time"
    assert told.guard.state == BROKEN


def test_a_measured_row_is_kept_where_no_layer_can_be_compared(monkeypatch):
    def refuse(*_):
        raise UserError("No part of this model has weights that this tool quantises.")

    monkeypatch.setattr(advice, "derived", refuse)
    place = SimpleNamespace(
        model=SimpleNamespace(page=SimpleNamespace(cancelled=False)), folder=Path()
    )
    row = Row("f16-weights", "Weights in f16", Apply(half_weights=True))
    assert advice._worst_layer(row, SimpleNamespace(source=Path("m.onnx")), place) == ""


def test_another_form_takes_no_settings_of_another_backend(monkeypatch):
    """A row in Wasm was given the settings of the GPU that the model had been tuned on."""
    gpu, wasm = GpuCandidate(4, 4, 4, 32, 32, 16), Candidate(8, 6, 4, 8, 6, 64)
    monkeypatch.setattr(model_on_page, "stored_best", lambda database, workload, here: wasm)
    workload = Workload("matmul", (64, 64, 64), "f32", (), "0", tunable=True)
    page = SimpleNamespace(
        backend=Backend("webgpu", "navigator"), database=None, here=lambda backend: None
    )
    model = ModelOnPage(page)
    model.opened = SimpleNamespace(shares_weights=False, workloads=())
    model.choose(workload.key, gpu)
    assert model.choose_known(WASM, [workload]) == {workload.key: wasm}
    assert model.choose_known(None, [workload]) == {workload.key: gpu}
