"""``nnjit bench regret`` against a page whose kernels take known times."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tuner_fakes import DEVICE, TUNABLE, Stage

from nnjit_studio.bench.tuner.regret import SHAPES, bench_regret, parse_shapes, row_text, summary
from nnjit_studio.bench.tuner.tables import regret_report
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.compiler.spelling import WorkloadSpec
from nnjit_studio.errors import UserError
from nnjit_studio.model import Graph
from nnjit_studio.records.backend import WASM
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.workbench import EnginePage, ModelOnPage, OpenModel, Workbench

BIG = TUNABLE[0]


def bench_of(hidden: float) -> Workbench:
    """A workbench of fakes: 6x8 is the best tile of the lite space, and 7x8, which only the
    wider one has, is faster by ``hidden``."""
    stage = Stage(workloads=(BIG,))

    def speed(workload: str, c: Candidate | None) -> float:
        if c is None:
            return 90.0
        tile = {(6, 8): 1.0, (7, 8): 1 - hidden, (5, 8): 1.1}.get((c.y0, c.x0), 1.5)
        return 10 * tile * (1 if c.r0 == 4 else 1.01) * (1 if c.order == "nm" else 1.01)

    stage.runner.speed = speed
    graph = Graph("toy", (), (), (), {})
    program = ImportedModel(graph, (BIG,), stage.runner.plan, frozenset({BIG.key}), Path("w"))
    page = SimpleNamespace(
        backend=WASM,
        connect=lambda: DEVICE,
        runner=stage.runner,
        compiler=stage.compiler,
        hand_to=lambda tenant: None,
    )
    model = ModelOnPage(cast(EnginePage, page))
    opened = model.adopt(OpenModel.static(Path("x"), program))
    bench = SimpleNamespace(
        page=page, compiler=stage.compiler, model=model, open_workload=lambda spec: opened
    )
    return cast(Workbench, bench)


def result_of(hidden: float) -> dict[str, Any]:
    notes: list[str] = []
    spec = WorkloadSpec.parse(SHAPES["K0"])
    result = bench_regret(bench_of(hidden), [("K0", spec)], 10, 16, notes.append)
    assert len(notes) == 1 and "K0" in notes[0]
    return result


def test_what_the_lite_space_leaves_out_is_regret_against_the_wider_one() -> None:
    result = result_of(hidden=0.2)
    (row,) = result["rows"]
    assert row["candidates"]["wide"] == 10 * row["candidates"]["lite"]
    assert row["regret"]["lite"] == pytest.approx(0, abs=0.03)
    assert row["regret"]["wide"] == pytest.approx(0.2, abs=0.02)
    assert "x0=8,y0=7" in row["best"]["wide"] and "x0=8,y0=6" in row["chosen"]
    assert row["rounds_to_best"] is None
    assert result["summary"]["found_in_time"] == 0


def test_a_tuner_that_finds_the_best_has_no_regret() -> None:
    result = result_of(hidden=0.0)
    (row,) = result["rows"]
    assert max(row["regret"].values()) < 0.01
    assert 0 < row["rounds_to_best"] <= row["rounds"] == len(row["order"])
    assert result["summary"]["found_in_time"] == 1
    report = regret_report(result)
    assert "K0" in report.text() and "100% of the shapes" in report.markdown()


def test_thirty_shapes_that_can_be_limited() -> None:
    assert len(parse_shapes(None)) == len(set(SHAPES.values())) == 30
    assert [name for name, _ in parse_shapes("2")] == ["K0", "K1"]
    given = parse_shapes("row,matmul:3x4x5:f32")
    assert [str(spec) for _, spec in given] == [SHAPES["row"], "matmul:3x4x5:f32"]
    for wrong, told in (("rwo", "no shape 'rwo'"), ("0", "No shape"), (",", "No shape")):
        with pytest.raises(UserError, match=told):
            parse_shapes(wrong)


def test_summary_counts_the_worst_and_what_came_in_time() -> None:
    rows = [
        {"regret": {"lite": 0.0, "wide": 0.02}, "rounds_to_best": 4, "settled": True},
        {"regret": {"lite": 0.01, "wide": 0.1}, "rounds_to_best": None, "settled": False},
        {"regret": {"lite": 0.02, "wide": 0.03}, "rounds_to_best": 17, "settled": True},
    ]
    found = summary(rows, 16)
    assert found["wide"] == {"mean": pytest.approx(0.05), "worst": 0.1}
    assert found["lite"] == {"mean": pytest.approx(0.01), "worst": 0.02}
    assert found["found_in_time"] == pytest.approx(1 / 3)
    assert found["unsettled"] == 1


def test_progress_says_never_where_the_best_was_not_found() -> None:
    row = {
        "shape": "K0", "rounds": 9, "reason": "converged", "rounds_to_best": None,
        "regret": {"lite": 0.0, "wide": 0.2}, "candidates": {"lite": 34, "wide": 340},
        "seconds": {"tuning": 3.0, "exhaustive": 20.0}, "settled": False,
    }  # fmt: skip
    assert all(t in row_text(row) for t in ("never", "20.0% of 340", "not settled"))
