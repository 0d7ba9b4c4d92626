"""Models whose steps are divided between WebGPU and Wasm: by kernels, and by what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from fake_page import fake_page
from test_gpu_runner import NAVIGATOR, Page

from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.model import (
    Graph,
    Node,
    Plan,
    PlanBuffer,
    PlanPort,
    PlanStep,
    TensorSpec,
    Workload,
)
from nnjit_studio.model.placement import CopyCost
from nnjit_studio.records import CompileResult, Kernel
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.divided import StepTimes, divided, recalled, remember, run_by
from nnjit_studio.workbench.open_model import OpenModel

NAMES = ("matmul", "cumsum", "relu")
WORKLOADS = tuple(Workload(name, (4,), "f32") for name in NAMES)
FAST = CopyCost(0.1, 0.1, 1e6)


class Kernels:
    """Has a kernel for the GPU of all workloads but some."""

    def __init__(self, *lacks: str) -> None:
        self._lacks = lacks

    def compile(self, workload: Workload, candidate: object, tiers: Any) -> CompileResult:
        return CompileResult(workload.key, None, error="no" * (workload.kind in self._lacks))


def opened(path: Path = Path("m.onnx")) -> OpenModel:
    """Three steps in a row."""
    plan = Plan(
        "m",
        (PlanPort(TensorSpec("x", (4,), "f32"), 0),),
        (PlanPort(TensorSpec("y", (4,), "f32"), 3),),
        tuple(PlanBuffer("arena", 64 * i, 16) for i in range(4)),
        (
            *(PlanStep("call", w.key, (i, i + 1)) for i, w in enumerate(WORKLOADS)),
            PlanStep("return"),
        ),
        0,
        256,
    )
    nodes = tuple(
        Node(w.kind, w.kind, (str(i),), (str(i + 1),), w.key) for i, w in enumerate(WORKLOADS)
    )
    graph = Graph("m", ("x",), ("y",), nodes, {})
    return OpenModel.static(path, ImportedModel(graph, WORKLOADS, plan, frozenset(), path))


def by(measured: StepTimes | None, *lacks: str) -> tuple[str, ...] | None:
    mixed = divided(opened(), cast(Compiler, Kernels(*lacks)), measured).mixed
    return mixed and mixed.devices


def test_what_has_no_kernel_runs_in_wasm() -> None:
    assert by(None, "cumsum") == ("webgpu", "wasm", "webgpu")
    assert by(None) is None, "the GPU runs all"
    assert by(None, *NAMES) is None, "the GPU runs nothing"
    model = divided(opened(), cast(Compiler, Kernels("cumsum")))
    assert [w.kind for w in run_by(model, "webgpu")] == ["matmul", "relu"]
    assert [w.kind for w in run_by(model, "wasm")] == ["cumsum"]
    assert len(run_by(opened(), "webgpu")) == 3 and not run_by(opened(), "wasm")


def test_what_was_measured_faster_runs_in_wasm() -> None:
    slow_scan = {w.key: ((5.0, 0.01) if w.kind == "cumsum" else (0.1, 5.0)) for w in WORKLOADS}
    assert by(StepTimes(slow_scan, FAST)) == ("webgpu", "wasm", "webgpu")
    assert by(StepTimes(slow_scan, CopyCost(9.0, 9.0))) is None, "the copies cost more"
    assert by(StepTimes({w.key: (5.0, 0.1) for w in WORKLOADS}, FAST)) is None, "all in Wasm"


def test_times_are_kept_for_a_file_and_a_target(tmp_path: Path) -> None:
    times = StepTimes({"cumsum": (5.0, 0.01)}, FAST)
    one, other = tmp_path / "one.onnx", tmp_path / "other.onnx"
    assert recalled(tmp_path, one) is None
    remember(tmp_path, one, "chromium+webgpu+software", times)
    assert recalled(tmp_path, one) is None, "software says nothing of a GPU"
    remember(tmp_path, one, "chromium+webgpu", times)
    for target in ("", "chromium+webgpu", "chromium+webgpu+software"):
        found = recalled(tmp_path, one, target)
        assert found and (found.times, found.cost) == (times.times, times.cost)
    assert recalled(tmp_path, one, "embedded+wgpu") is None and recalled(tmp_path, other) is None
    remember(tmp_path, one, "chromium+webgpu", None)
    assert recalled(tmp_path, one) is None
    assert recalled(tmp_path, one, "chromium+webgpu+software")
    (tmp_path / "step_times.json").write_text("[{}]")
    assert recalled(tmp_path, one, "chromium+webgpu+software") is None


def test_a_page_on_webgpu_gets_the_kernels_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    model = opened(tmp_path / "m.onnx")
    lacking = Kernels("cumsum")

    def made(compiler: Compiler, workload: Workload, candidate: object, tiers: Any) -> Any:
        found = lacking.compile(workload, candidate, tiers) if "wgsl" in tiers[0] else None
        if found and found.error:
            return found
        each = (Kernel(workload.key, None, tier, b"k", "ab") for tier in tiers)
        return CompileResult(workload.key, None, tuple(each))

    monkeypatch.setattr(Compiler, "compile", made)
    bench = Workbench(tmp_path / "k.db", "chromium", backend=NAVIGATOR)
    monkeypatch.setattr(bench.process, "gpu_limit_kernels", lambda n: ((b"{}", 9), (b"{}", 1)))
    with fake_page(bench.page.hub, Page()) as page:
        bench.model.load(model)
        bench.model.adopt(model)
        bench.model.register_best()
    loads = [header for header, _ in page.seen if header["type"] == "load"]
    assert ["mixed" in load for load in loads] == [False, True]
    (registered,) = (header for header, _ in page.seen if header["type"] == "register")
    tiers = {k["workload"].split(":")[0]: k["tier"] for k in registered["kernels"]}
    assert tiers == {"matmul": "wgsl-subgroups", "relu": "wgsl-subgroups", "cumsum": "relaxed-simd"}
    bench.close()
