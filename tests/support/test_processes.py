"""Cores that this process may use, which is what work is spread over and advice offers."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.advice.rows import rows_of
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.graph import Graph
from nnjit_studio.model.survey import Survey
from nnjit_studio.support.processes import usable_cores
from nnjit_studio.workbench.jobs.advice import _facts


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_advice_offers_the_threads_that_this_process_may_use(monkeypatch, tmp_path):
    """It offered those of the machine, also where the Studio was pinned to fewer."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 7})
    assert usable_cores() == 3
    survey = Survey(tmp_path / "m.onnx", "", 0, 17, (), Graph("m", (), (), (), {}))
    opened = SimpleNamespace(
        path=survey.path, importing=ImportOptions(),
        plan=SimpleNamespace(input_specs=(), output_specs=()),
        program=lambda: SimpleNamespace(choices=()),
    )  # fmt: skip
    page = SimpleNamespace(threads=1, process=SimpleNamespace(survey=lambda _: survey))
    model = SimpleNamespace(current=opened, page=page, feeds={})
    threads = rows_of(_facts(model, AdviceOptions()))[0]
    assert threads.title.startswith("3 threads instead of 1")
