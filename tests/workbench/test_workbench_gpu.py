"""A workbench with two backends: changed, refused, and given up where the GPU is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_page import fake_page
from test_gpu_runner import ADAPTER, FEEDS, NAVIGATOR, PLAN, Page

from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.compiler.version import COMPILER_VERSION, GPU_COMPILER_VERSION
from nnjit_studio.engine.runner.recovery import MOST_LOSSES
from nnjit_studio.errors import TargetError, UserError
from nnjit_studio.model import Graph
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.tuner.events import Event, Failed, FellBack
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.jobs import use_backend
from nnjit_studio.workbench.open_model import OpenModel, import_model

GIVEN_UP = ["infer", *["load"] * MOST_LOSSES]


@pytest.fixture
def answers() -> Page:
    return Page()


@pytest.fixture
def bench(tmp_path: Path, answers: Page, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    """One model without workloads, open on WebGPU."""
    bench = Workbench(tmp_path / "k.db", "chromium", backend=NAVIGATOR)
    monkeypatch.setattr(bench.process, "peak_kernels", lambda tiers, wide: [])
    limits = ((b"{}", 1000), (b"{}", 1))
    monkeypatch.setattr(bench.process, "gpu_limit_kernels", lambda nbytes: limits)
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"12345678")
    with fake_page(bench.page.hub, answers):
        program = ImportedModel(Graph("m", (), (), (), {}), (), PLAN, frozenset(), weights)
        opened = OpenModel.static(tmp_path, program)
        bench.model.load(opened)
        bench.model.adopt(opened, FEEDS)
        yield bench
    bench.close()


def test_a_backend_is_changed_and_changed_back(bench: Workbench) -> None:
    assert (bench.page.target, bench.compiler.version) == ("chromium+webgpu", GPU_COMPILER_VERSION)
    assert bench.page.device is not None and bench.page.device.gpu is not None
    assert use_backend(bench.model, WASM).gpu is None
    assert (bench.page.target, bench.compiler.version) == ("chromium", COMPILER_VERSION)
    np.testing.assert_array_equal(bench.model.infer().outputs["y"], FEEDS["x"])
    assert use_backend(bench.model, NAVIGATOR).label == "chromium+webgpu"
    assert bench.page.backend == NAVIGATOR and bench.page.fallback_reason == ""


def test_a_backend_that_is_not_there_leaves_the_old_one(bench: Workbench, answers: Page) -> None:
    use_backend(bench.model, WASM)
    answers.adapter = {**ADAPTER, "is_fallback": True}
    with pytest.raises(TargetError, match="software, no GPU"):
        use_backend(bench.model, NAVIGATOR)
    assert bench.page.backend == WASM and bench.page.target == "chromium"
    assert bench.page.device is not None and bench.page.device.gpu is None
    np.testing.assert_array_equal(bench.model.infer().outputs["y"], FEEDS["x"])
    assert use_backend(bench.model, Backend("webgpu", "navigator", software=True)).gpu is not None


def test_a_gpu_that_is_given_up_leaves_the_model_to_wasm(bench: Workbench, answers: Page) -> None:
    answers.fails = list(GIVEN_UP)
    np.testing.assert_array_equal(bench.model.infer().outputs["y"], FEEDS["x"])
    assert bench.page.backend == WASM and "times in a row" in bench.page.fallback_reason
    assert any("Wasm runs" in short for short, _ in bench.page.badges())
    use_backend(bench.model, NAVIGATOR)
    assert bench.page.fallback_reason == "" and not bench.page.badges(), "it may be tried once more"


def test_a_session_that_loses_the_gpu_says_so_before_it_fails(
    bench: Workbench, answers: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Losing:
        def __init__(self, *given: object) -> None:
            self.runner = given[1].runner  # type: ignore[attr-defined]

        def run(self) -> Iterator[Event]:
            answers.fails = list(GIVEN_UP)
            with pytest.raises(Exception, match="times in a row") as gone:
                self.runner.infer(FEEDS)  # type: ignore[attr-defined]
            yield Failed(1.0, gone.value.to_json())

    monkeypatch.setattr("nnjit_studio.workbench.tuning.TuningSession", Losing)
    back, failed = bench.tuning.start(5.0)
    assert isinstance(back, FellBack) and isinstance(failed, Failed)
    assert back.target == "chromium" and "times in a row" in back.reason
    np.testing.assert_array_equal(bench.model.infer().outputs["y"], FEEDS["x"])


def test_a_backend_is_preferred_only_before_the_page_was_asked(bench: Workbench) -> None:
    bench.page.prefer(WASM)
    assert bench.page.backend == NAVIGATOR


def test_only_wasm_has_tiles_and_loops(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bench.process, "import_model", lambda *given, **options: bench.model.current.program()
    )
    for backend, wasm in ((NAVIGATOR, False), (WASM, True)):
        use_backend(bench.model, backend)
        importing = import_model(bench.page, tmp_path / "m.onnx").importing
        assert importing is not None
        assert (importing.winograd, importing.loops) == (wasm, wasm)


def test_only_wasm_ends_at_four_gibibytes(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = replace(bench.model.current.program(), plan=replace(PLAN, weights_bytes=2**32))
    monkeypatch.setattr(bench.process, "import_model", lambda *given: huge)
    assert import_model(bench.page, tmp_path / "huge.onnx").plan.weights_bytes == 2**32
    use_backend(bench.model, WASM)
    with pytest.raises(UserError, match="a page's memory ends at 4096 MiB"):
        import_model(bench.page, tmp_path / "huge.onnx")
