"""WGSL kernels in real Chromium, on its software adapter: another compiler, other rules."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import pytest
from byte_products import byte_product
from waiting import PATIENCE_S
from wgsl_programs import PROGRAMS

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.pipeline import wgsl as pipeline
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.engine.browsers.browsers import find, is_root
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.kept_page import keep_page
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.records import GPU_TIERS, Kernel, MeasurePolicy
from nnjit_studio.records.backend import Backend
from nnjit_studio.records.gpu_candidate import GpuCandidate

pytestmark = pytest.mark.chromium
POLICY = MeasurePolicy(pairs=1, min_sample_ms=0.1, min_quanta=1, warmup_ms=0.0, digest=True)


@pytest.fixture(scope="module")
def runner() -> Iterator[PageRunner]:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    with Hub() as hub, keep_page(hub, find("chromium"), is_root(), "software") as running:
        hub.wait_for_page(PATIENCE_S)
        backend = Backend("webgpu", "navigator", software=True)
        yield PageRunner(hub, "chromium", timeout_s=PATIENCE_S, backend=backend)
        assert running.crashes == 0


TEMPLATES = {
    "convolution": (
        program_for("conv2d:1x5x13x11x9x3x3x2x1x1x1:f32+bias+relu"),
        (4, 4, 4, 32, 16, 8),
    ),
    "depthwise": (program_for("conv2d:1x6x14x12x6x3x3x1x1x1x6:f32+bias"), (4, 2, 1, 128, 2, 1)),
    "bytes": (byte_product(17, 36, 22, "u8", dequantised=True), (4, 4, 2, 32, 16, 4)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_within_guards(
    name: str, runner: PageRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "match", lambda program: None)
    check(PROGRAMS[name], None, runner)


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(name: str, runner: PageRunner) -> None:
    program, settings = TEMPLATES[name]
    check(program, GpuCandidate(*settings), runner)


def check(program: Program, candidate: GpuCandidate | None, runner: PageRunner) -> None:
    """Right in each tier whose kernel is another one."""
    workload = workload_for(program, subject_of(program))
    runner.set_fixture(make_fixture(workload.key, program))
    seen = set()
    for tier in GPU_TIERS:
        data = pipeline.compile_wgsl(program, candidate, tier).data
        if data not in seen:
            seen.add(data)
            kernel = Kernel(workload.key, candidate, tier, data, hashlib.sha256(data).hexdigest())
            result = runner.measure(kernel, None, POLICY)
            assert result.error == ""
            assert result.guard_ok
            assert result.error_ratio <= 1
