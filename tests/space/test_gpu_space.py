"""Candidates of WGSL kernels, constants of GPUs, and the lite space of products on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnjit_studio.device.gpu_constants import CONSTANTS, typical, with_constants
from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_candidate import GpuCandidate, parse_candidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space import Candidate, build_lite_space, explain
from nnjit_studio.space.webgpu.matmul import (
    MATVEC_ROWS,
    RULES,
    gpu_candidates,
    gpu_problem,
    gpu_variations,
    untuned,
)
from nnjit_studio.space.webgpu.usage import stages, workgroup_bytes

TEXT = "x0=8,y0=8,r0=1,x1=64,y1=64,r1=16,split=1,vec=4"
SPECS = [
    ("matmul", (384, 768, 768)),
    ("matmul", (640, 768, 3072)),
    ("matmul", (4096, 4096, 4096)),
    ("batch_matmul", (12, 384, 384, 64)),
    ("batch_matmul", (120, 64, 64, 64)),
    ("batch_matmul_dot", (12, 384, 64, 384)),
    ("matmul", (1, 768, 3072)),
    ("matmul_dot", (1, 768, 30522)),
    ("matmul", (9, 5, 7)),
]


def workload(kind: str, dims: tuple[int, ...]) -> Workload:
    return Workload(kind, dims, "f32", (), "")


def test_either_candidate_by_its_text() -> None:
    found = parse_candidate(TEXT)
    assert found == GpuCandidate(8, 8, 1, 64, 64, 16, 1, 4) and str(found) == TEXT
    assert isinstance(parse_candidate("x0=8,y0=6,r0=4,x1=8,y1=6,r1=384"), Candidate)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (TEXT + ",speed=9", "speed"),
        (TEXT.replace("vec=4", "vec=3"), "vec"),
        (TEXT.replace("x1=64", "x1=60"), "x1"),
        (TEXT.replace("split=1", "split=0"), "least 1"),
        (TEXT.replace("r1=16,", ""), "r1"),
        (TEXT.replace("r1=16", "r1=many"), "many"),
    ],
)
def test_bad_text_is_told(text: str, word: str) -> None:
    with pytest.raises(UserError, match=word):
        parse_candidate(text)


def test_constants_say_where_they_are_from() -> None:
    named = with_constants(
        GpuProfile("nvidia", "hopper", description="NVIDIA H200", subgroup_min=32)
    )
    assert (named.cores, named.warp) == (132, 32)
    assert named.sources["cores"].startswith("data sheet")
    assert "subgroup" in named.sources["warp"]
    unknown = with_constants(GpuProfile("somebody"))
    assert "assumed" in unknown.sources["registers_per_core"]
    software = with_constants(GpuProfile("google", is_fallback=True))
    assert software.cores == CONSTANTS["software"].cores
    with pytest.raises(UserError, match="nvidia"):
        typical("abacus")


extents = st.integers(1, 5000)
products = st.one_of(
    st.sampled_from(SPECS),
    st.tuples(st.sampled_from(["matmul", "matmul_dot"]), st.tuples(extents, extents, extents)),
    st.tuples(
        st.sampled_from(["batch_matmul", "batch_matmul_dot"]),
        st.tuples(st.integers(1, 128), extents, extents, extents),
    ),
)


@settings(max_examples=60)
@given(products, st.sampled_from(sorted(CONSTANTS)))
def test_the_space_is_small_and_fits(product: tuple[str, tuple[int, ...]], gpu: str) -> None:
    problem = gpu_problem(workload(*product), typical(gpu))
    candidates = gpu_candidates(problem)
    # Seven or eight rows leave no tile of whole vectors to a GPU with few registers.
    least = problem.registers(GpuCandidate(4, 8, 2, 32, 8, 16)) <= problem.gpu.registers_per_thread
    assert (candidates or not least) and len(candidates) <= 72
    assert len(set(candidates)) == len(candidates)
    limit = problem.gpu.limit("maxComputeWorkgroupStorageSize")
    for c in candidates:
        assert all(rule(c, problem)[0] for rule in RULES)
        assert problem.shared_bytes(c) <= limit and problem.threads(c) <= 256
        assert len(gpu_variations(c, problem)) <= 1
        assert GpuCandidate.parse(str(c)) == c


def test_every_verdict_of_what_is_in_is_ok_and_what_is_out_has_a_reason() -> None:
    device = replace(DeviceProfile("id", "chromium+webgpu"), gpu=typical("nvidia/hopper"))
    work = workload("matmul", (384, 768, 768))
    space = build_lite_space(work, device, True)
    assert space.naive_size == 2_099_520
    for entry in space.entries:
        assert all(v.ok and v.text for v in explain(entry.candidate, work, device, True))
        assert entry.usage.blocks_per_core >= 1 and entry.reason
    first = space.entries[0].candidate
    assert isinstance(first, GpuCandidate)
    for out, rule in (
        (replace(first, x1=1024, y1=1024), "threads"),
        (replace(first, r1=256), "shared_memory"),
        (replace(first, split=64), "split"),
        (replace(first, r1=24), "power_of_two"),
        (replace(first, vec=1), "simd_width"),
    ):
        verdicts = {v.rule: v.ok for v in explain(out, work, device, True)}
        assert not verdicts[rule]
    with pytest.raises(UserError, match="Wasm"):
        explain(Candidate(8, 6, 4, 8, 6, 768), work, device, True)


def test_a_small_product_is_split_over_idle_cores_a_large_one_is_not() -> None:
    gpu = typical("nvidia/hopper")
    small = gpu_candidates(gpu_problem(workload("matmul", (384, 768, 768)), gpu))
    large = gpu_candidates(gpu_problem(workload("matmul", (4096, 4096, 4096)), gpu))
    assert any(c.split > 1 for c in small[:8]) and any(c.split == 1 for c in small)
    assert all(c.split == 1 for c in large)


def test_no_space_of_other_kinds() -> None:
    with pytest.raises(UserError, match="lite space"):
        gpu_problem(workload("conv2d", (1, 2, 3)), typical(""))


def test_two_stages_where_they_fit() -> None:
    c = GpuCandidate(8, 8, 4, 128, 128, 8)
    assert stages(c, 768) == 2 and stages(c, 8) == 1
    assert workgroup_bytes(c, 768) == 2 * 8 * (132 + 132) * 4
    assert stages(replace(c, r1=16), 768) == 1


@settings(max_examples=200)
@given(
    st.integers(1, 128), st.integers(1, MATVEC_ROWS + 1) | extents, extents, extents, st.booleans()
)
def test_every_product_has_an_untuned_kernel(
    batch: int, m: int, k: int, n: int, along_k: bool
) -> None:
    problem = gpu_problem(workload("batch_matmul", (batch, m, k, n)), typical(""))
    c = untuned(batch, m, k, n, along_k)
    assert problem.shared_bytes(c) <= 16384 and problem.threads(c) <= 256
