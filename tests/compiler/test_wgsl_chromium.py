"""WGSL kernels in real Chromium, on its software adapter: another compiler, other rules."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

import pytest
from wgsl_programs import PROGRAMS

from nnjit_studio.compiler.fixture import make_fixture
from nnjit_studio.compiler.subject import subject_of, workload_for
from nnjit_studio.compiler.wgsl import pipeline
from nnjit_studio.link.browsers import find, is_root, launch
from nnjit_studio.link.gpu_runner import GpuRunner
from nnjit_studio.link.hub import Hub
from nnjit_studio.space.backend import Backend
from nnjit_studio.space.records import GPU_TIERS, Kernel, MeasurePolicy

pytestmark = pytest.mark.chromium
POLICY = MeasurePolicy(pairs=1, min_sample_ms=0.1, min_quanta=1, warmup_ms=0.0, digest=True)


@pytest.fixture(scope="module")
def runner() -> Iterator[GpuRunner]:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    with (
        Hub() as hub,
        launch(find("chromium"), hub.url, is_root(), on_exit=hub.report_lost, gpu="software"),
    ):
        hub.wait_for_page(60)
        yield GpuRunner(
            hub, "chromium", Backend("webgpu", "navigator", software=True), timeout_s=60
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_within_guards(name: str, runner: GpuRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "TEMPLATES", ())
    program = PROGRAMS[name]
    workload = workload_for(program, subject_of(program))
    runner.set_fixture(make_fixture(workload.key, program))
    seen = set()
    for tier in GPU_TIERS:
        data = pipeline.compile_wgsl(program, None, tier).data
        if data not in seen:
            seen.add(data)
            kernel = Kernel(workload.key, None, tier, data, hashlib.sha256(data).hexdigest())
            result = runner.measure(kernel, None, POLICY)
            assert result.error == ""
            assert result.guard_ok
            assert result.error_ratio <= 1
