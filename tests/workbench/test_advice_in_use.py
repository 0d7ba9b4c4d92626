"""The rows in use as one row: in turns with the plain file, errors against that file's outputs."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from advices import measured

from nnjit_studio.advice.measure import Form, Found
from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.advice.records import BROKEN, IMPOSSIBLE, KEPT, MEASURED, MEASURING
from nnjit_studio.model import ImportOptions, TensorSpec
from nnjit_studio.workbench.advice_forms import Made, Plain
from nnjit_studio.workbench.jobs import advice_in_use

OUTPUT = (TensorSpec("y", (2,), "f32"),)
PLAIN = Plain(Path("m.onnx"), ImportOptions(), 1, {})


def arrays(*values):
    return {"y": np.array(values, np.float32)}


@pytest.fixture
def measure(monkeypatch):
    """Runs the job with what a page and native ONNX Runtime tell."""
    page = SimpleNamespace(working=contextlib.nullcontext, cancelled=False)

    def job(found, native):
        turns = []

        def in_turns(folder, base, form, *_):
            turns.append((base.name, form.name))
            yield Found(found.measured)
            yield found

        made = lambda name: Made(Form(name, "", {}, OUTPUT), PLAIN.path)  # noqa: E731
        monkeypatch.setattr(advice_in_use, "of_file", lambda *_: made("untouched"))
        monkeypatch.setattr(advice_in_use, "as_open", lambda model, folder, name: made(name))
        monkeypatch.setattr(advice_in_use, "measure", in_turns)
        monkeypatch.setattr(advice_in_use, "native_outputs", lambda *_: native)
        model = SimpleNamespace(page=page)
        options = AdviceOptions(max_error=1e-2)
        rows = list(advice_in_use.measure_in_use(model, None, PLAIN, "Two rows", options))
        assert turns == [("untouched", "in-use")]
        return rows

    return job


def test_it_is_told_while_it_is_measured_and_judged_at_the_end(measure):
    rows = measure(Found(measured(9.0, 2.2), outputs=arrays(1, 2.01)), arrays(1, 2))
    assert [row.state for row in rows] == [MEASURING, MEASURING, MEASURING, MEASURED]
    last = rows[-1]
    assert last.title == "Two rows" and last.guard.state == KEPT and last.outcome == "faster"
    assert last.measured.max_error == pytest.approx(5e-3, rel=1e-3)


def test_the_guard_is_of_the_set(measure):
    last = measure(Found(measured(9.0, 2.2), outputs=arrays(1, 2.2)), arrays(1, 2))[-1]
    assert last.guard.state == BROKEN and "0.1 of its largest value" in last.refusal


def test_without_native_outputs_the_plain_file_in_our_engine_is_the_reference(measure):
    found = Found(measured(9.0, 2.2), outputs=arrays(1, 3), base_outputs=arrays(1, 3))
    assert measure(found, {})[-1].measured.max_error == 0.0


def test_what_does_not_run_has_its_reason(measure):
    last = measure(Found(refused="No memory."), arrays(1, 2))[-1]
    assert last.state == IMPOSSIBLE and last.refusal == "No memory."
