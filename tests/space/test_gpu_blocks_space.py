from __future__ import annotations

from dataclasses import replace

import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.quantised import BLOCK_KINDS
from nnjit_studio.space import build_lite_space
from nnjit_studio.space.lite_space import explain
from nnjit_studio.space.webgpu.matmul_blocks import block_problem, untuned_blocks
from nnjit_studio.tuner.search.gpu_cost_model import prior_of

SMALL = GpuProfile(cores=16)
LARGE = GpuProfile(
    cores=132,
    registers_per_thread=255,
    threads_per_core=2048,
    shared_bytes_per_core=228 << 10,
    limits={"maxComputeInvocationsPerWorkgroup": 1024, "maxComputeWorkgroupStorageSize": 49152},
)


def device(gpu: GpuProfile) -> DeviceProfile:
    return DeviceProfile("gpu", "chromium+webgpu", tiers=("wgsl",), gpu=gpu)


def workload(*dims: int) -> Workload:
    return Workload("matmul_4bit", dims, "f32")


@pytest.mark.parametrize("gpu", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "dims", [(1, 4096, 4096), (1, 4096, 11008), (4, 512, 64), (64, 1024, 1024), (300, 64, 96)]
)
def test_dozens_of_candidates_that_every_rule_accepts(
    gpu: GpuProfile, dims: tuple[int, int, int]
) -> None:
    space = build_lite_space(workload(*dims), device(gpu), False)
    found = [entry.candidate for entry in space.entries]
    assert 6 <= len(found) <= 72 and len(set(found)) == len(found)
    for candidate in found:
        assert all(v.ok for v in explain(candidate, workload(*dims), device(gpu), False))
        assert isinstance(candidate, GpuCandidate)
        share, numbers, family = prior_of(candidate, workload(*dims), gpu)
        assert share == share and all(x == x for x in numbers)
        assert family == ("gpu-row-4bit" if dims[0] <= 8 else "gpu-4bit")


@pytest.mark.parametrize("dims", [(1, 4096, 4096), (4, 512, 64), (64, 1024, 1024), (6, 64, 96, 64)])
def test_products_in_8_bits_and_of_heads_have_spaces(dims: tuple[int, ...]) -> None:
    """Without rows of integers, whose sums would not fit."""
    for kind in BLOCK_KINDS.values():
        given = replace(workload(*dims), kind=kind)
        space = build_lite_space(given, device(LARGE), False)
        assert 6 <= len(space.entries) <= 72
        integers = dims[0] == 1 and kind == BLOCK_KINDS[4]
        assert any(e.candidate.vec == 1 for e in space.entries if dims[0] == 1) == integers


def test_limits_of_the_adapter_are_kept() -> None:
    for gpu in (SMALL, LARGE):
        problem = block_problem(workload(1, 4096, 4096), gpu)
        space = build_lite_space(workload(1, 4096, 4096), device(gpu), False)
        threads = [problem.threads(e.candidate) for e in space.entries]
        assert max(threads) == min(512, gpu.limit("maxComputeInvocationsPerWorkgroup"))
        most = gpu.limit("maxComputeWorkgroupStorageSize")
        assert all(e.usage.l1_bytes <= most for e in space.entries)


def test_a_large_gpu_is_filled_first() -> None:
    space = build_lite_space(workload(1, 4096, 4096), device(LARGE), False)
    problem = block_problem(workload(1, 4096, 4096), LARGE)
    best = space.entries[0].candidate
    assert problem.workgroups(best) * problem.threads(best) >= 132 * 256


@pytest.mark.parametrize(("m", "n", "split"), [(128, 4096, 4), (128, 12288, 2), (512, 11008, 1)])
def test_many_rows_untuned_fit_any_device_and_fill_a_large_one(m: int, n: int, split: int) -> None:
    found = untuned_blocks(m, 4096, n)
    assert found.split == split and found.threads <= 128
    problem = block_problem(workload(m, 4096, n), SMALL)
    assert problem.shared_bytes(found) <= SMALL.limit("maxComputeWorkgroupStorageSize")
    assert problem.workgroups(found) * found.split >= 256


def test_why_a_candidate_is_out_is_told() -> None:
    wide = GpuCandidate(4, 1, 1, 128, 1, 1024)
    verdicts = explain(wide, workload(1, 4096, 4096), device(SMALL), False)
    assert [v.rule for v in verdicts if not v.ok] == ["threads", "shared_memory", "registers"]
    assert any("4096" in v.text for v in verdicts)


def test_another_workload_is_refused() -> None:
    other = replace(workload(1, 64, 64), kind="matmul")
    with pytest.raises(UserError, match="no product with weights in blocks"):
        block_problem(other, SMALL)
