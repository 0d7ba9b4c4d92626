"""Forms of the open model: what is imported anew for a row, and what is open already."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.records import Row
from nnjit_studio.errors import UserError
from nnjit_studio.model import GivenShapes, ImportOptions
from nnjit_studio.workbench import advice_forms
from nnjit_studio.workbench.advice_forms import form_of
from nnjit_studio.workbench.jobs import advice


@pytest.fixture
def made(monkeypatch):
    """Which of both ways a row takes, with its threads."""
    monkeypatch.setattr(
        advice_forms, "untouched", lambda model, folder, name, threads: ("open", threads)
    )
    monkeypatch.setattr(
        advice_forms, "of_file", lambda model, plain, folder, name: ("imported", plain.threads)
    )
    given = ImportOptions(GivenShapes({"n": 1}), half_weights=True)
    opened = SimpleNamespace(path=Path("m.onnx"), importing=given)
    model = SimpleNamespace(page=SimpleNamespace(threads=1), current=opened, feeds={})
    return lambda apply: form_of(model, Row("row", "Row", apply), Path())


def test_threads_take_what_is_open(made):
    assert made(Apply(threads=2)) == ("open", 2), "an import takes longer than the measurement"
    assert made(Apply(threads=2, half_weights=True)) == ("open", 2), "it has them already"


def test_another_import_is_made(made):
    assert made(Apply(direct=True)) == ("imported", 1)
    assert made(Apply(threads=2, ways={"merge": "off"})) == ("imported", 2)


def test_a_measured_row_is_kept_where_no_layer_can_be_compared(monkeypatch):
    def refuse(*_):
        raise UserError("No part of this model has weights that this tool quantises.")

    monkeypatch.setattr(advice, "derived", refuse)
    place = SimpleNamespace(
        model=SimpleNamespace(page=SimpleNamespace(cancelled=False)), folder=Path()
    )
    row = Row("f16-weights", "Weights in f16", Apply(half_weights=True))
    assert advice._worst_layer(row, SimpleNamespace(source=Path("m.onnx")), place) == ""
