"""One kernel from every side, without a page and without Qt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from profiles import DEVICE

from nnjit_studio.analysis.kernel.changes import as_text, changes
from nnjit_studio.analysis.kernel.kernel import KernelInspection, inspect_kernel
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES
from nnjit_studio.compiler.process.inspection import kernel_texts
from nnjit_studio.compiler.process.results import KernelTexts
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate
from nnjit_studio.space import build_lite_space
from nnjit_studio.space.lite_space import usage_of

PROGRAM = program_for("matmul:64x96x64:f32")
WORKLOAD = workload_for(PROGRAM, subject_of(PROGRAM))
INSIDE = "x0=8,y0=4,r0=1,x1=8,y1=4,r1=96"


class Source:
    """Compiles in this process."""

    def texts(self, workload: Workload, candidate: AnyCandidate | None, tier: str) -> KernelTexts:
        if candidate is not None and candidate.x0 == 12:
            raise CompileError("Too many locals.")
        return kernel_texts(workload.key, PROGRAM, candidate, tier, OPTIONAL_PASSES)


def inspect(settings: str, **changed: object) -> KernelInspection:
    device = replace(DEVICE, **changed)  # type: ignore[arg-type]
    candidate = parse_candidate(settings) if settings else None
    return inspect_kernel(Source(), WORKLOAD, candidate, device, True, {1: 10.0, 4: 25.0})


def test_a_candidate_is_told_with_its_numbers() -> None:
    found = inspect(INSIDE)
    assert found.error == "" and found.kernel is not None
    assert found.usage is not None and found.usage.registers > 0 and found.usage.l1_bytes > 0
    assert {v.rule for v in found.verdicts} >= {"registers", "l1_cache"}
    assert found.compile_ms == sum(p.ms for p in found.passes)
    assert found.loops.startswith("parallel_extent") and found.code.startswith("(func")
    assert found.to_code is not None and found.loops_to_code is not None
    lines = len(found.program.splitlines())
    assert len(found.to_code.forward) == lines and len(found.to_loops.forward) == lines  # type: ignore[union-attr]


def test_usage_is_that_of_the_space() -> None:
    space = build_lite_space(WORKLOAD, DEVICE, True)
    for entry in space.entries:
        assert usage_of(entry.candidate, WORKLOAD, DEVICE, True) == entry.usage


def test_outside_the_space_a_rule_says_why_and_the_numbers_are_there() -> None:
    found = inspect("x0=32,y0=8,r0=1,x1=32,y1=8,r1=96")
    assert not found.in_space and found.usage is not None
    assert "registers" in [v.rule for v in found.verdicts if not v.ok]


def test_the_default_schedule_has_texts_but_no_rules() -> None:
    found = inspect("")
    assert found.settings == "default" and found.verdicts == () and found.usage is None
    assert found.kernel is not None and found.error == ""


def test_passes_show_what_they_changed() -> None:
    steps = {p.name: p for p in inspect(INSIDE).passes}
    assert steps["schedule"].lines is None and steps["lower"].lines is None
    assert steps["encode"].lines is None
    tee = steps["load_store_to_variable"]
    assert tee.lines is not None and tee.added > 0 and tee.removed > 0
    new = [line.text for line in tee.lines if line.mark != "-"]
    assert "\n".join(new) + "\n" == tee.text


def test_a_candidate_that_does_not_compile_is_a_record() -> None:
    found = inspect("x0=12,y0=4,r0=1,x1=12,y1=4,r1=96")
    assert found.error == "Too many locals." and found.kernel is None and found.verdicts


def test_a_candidate_of_the_other_backend_is_a_record() -> None:
    found = inspect("x0=8,y0=8,r0=4,x1=64,y1=64,r1=16,split=1,vec=4")
    assert "WGSL kernels" in found.error and found.passes == ()


@pytest.mark.parametrize(("threads", "bandwidth"), [(1, 10.0), (2, 10.0), (4, 25.0)])
def test_the_roof_is_that_of_the_threads(threads: int, bandwidth: float) -> None:
    limits = inspect(
        INSIDE, threads=threads, tiers=("simd128",), peak_gflops={"simd128": 40.0}
    ).limits
    assert limits is not None
    assert (limits.peak_gflops, limits.bandwidth_gbs) == (40.0 * threads, bandwidth)
    assert limits.intensity == pytest.approx(2 * 64 * 96 * 64 / (4 * (2 * 64 * 96 + 64 * 64)))
    assert limits.roof_gflops == min(40.0 * threads, limits.intensity * bandwidth)


def test_without_a_probed_peak_there_is_no_roof() -> None:
    limits = inspect(INSIDE, peak_gflops={}).limits
    assert limits is not None and limits.roof_gflops is None


def test_changes_mark_what_is_new_and_what_is_gone() -> None:
    lines = changes("a\nb\nc\n", "a\nB\nc\nd\n")
    assert [(line.mark, line.text) for line in lines] == [
        (" ", "a"), ("-", "b"), ("+", "B"), (" ", "c"), ("+", "d"),
    ]  # fmt: skip
    many = changes("\n".join("abcdefghij"), "\n".join("abcdeFghij"))
    assert as_text(many, 1) == "@@ line 5\n  e\n- f\n+ F\n  g\n"
    assert as_text(changes("a", "a"), 3) == ""
