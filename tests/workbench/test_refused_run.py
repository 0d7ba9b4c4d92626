"""A refused model's run, with the engines played."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import onnx
import pytest
from onnx_models import save

from nnjit_studio.model.survey import Survey
from nnjit_studio.verdict.case import Case
from nnjit_studio.workbench.jobs import refused
from nnjit_studio.workbench.jobs.refused import Refused, RefusedRun, run_refused


def test_a_turbo_module_that_another_window_drops_meanwhile_is_still_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    relu = onnx.helper.make_node("Relu", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [relu], {"x": [4]}, {"y": [4]})
    module = tmp_path / "kept" / "ort.turbo.wasm"
    module.parent.mkdir()
    module.write_bytes(b"faster")
    served: list[bytes] = []

    def natively(model: object, given: Refused, run: RefusedRun) -> RefusedRun:
        shutil.rmtree(module.parent)
        return run

    def measure(case: Case, *given: object) -> Iterator[Any]:
        served.extend((case.folder / e.wasm).read_bytes() for e in case.entries if e.wasm)
        return iter(())

    monkeypatch.setattr(refused, "_natively", natively)
    monkeypatch.setattr(refused, "measure", measure)
    monkeypatch.setattr(refused, "_profiled", lambda *given: iter(()))
    page = SimpleNamespace(
        working=nullcontext, threads=1, connect=lambda: SimpleNamespace(user_agent="x")
    )
    survey = cast(Survey, SimpleNamespace(path=path))
    peer = cast(Any, SimpleNamespace(version="1", node_modules=tmp_path))
    given = Refused(survey, {}, "why"), cast(Any, None), peer, cast(Any, None), (), module
    assert list(run_refused(cast(Any, SimpleNamespace(page=page)), *given))
    assert served == [b"faster"]
