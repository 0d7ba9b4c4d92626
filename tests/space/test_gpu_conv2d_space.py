"""The lite spaces of convolutions and of products of bytes on a GPU."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from nnjit_studio.device.gpu_constants import typical
from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, gpu_tiers
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import DEFAULT_LIMITS
from nnjit_studio.space import build_lite_space, explain
from nnjit_studio.space.lite_space import usage_of
from nnjit_studio.space.registry import row_of
from nnjit_studio.space.webgpu.conv2d import (
    MOST_PRODUCTS,
    DepthwiseProblem,
    conv2d_gpu_problem,
    untuned_conv2d,
)
from nnjit_studio.space.webgpu.matmul_int8 import Int8Problem, untuned_int8
from nnjit_studio.space.wide_space import build_wide_space
from nnjit_studio.tuner.search.cost_model import point_of

CONVOLUTIONS = {
    "first": (1, 3, 224, 224, 64, 7, 7, 2, 3, 1, 1),
    "middle": (1, 128, 28, 28, 128, 3, 3, 1, 1, 1, 1),
    "last": (1, 512, 7, 7, 512, 3, 3, 1, 1, 1, 1),
    "grouped": (4, 32, 14, 14, 32, 3, 3, 1, 1, 1, 8),
    "sequence": (1, 80, 1, 3000, 384, 1, 3, 2, 1, 1, 1),
    "tiny": (1, 1, 3, 3, 2, 2, 2, 1, 0, 1, 1),
    "depthwise": (1, 96, 112, 112, 96, 3, 3, 2, 1, 1, 96),
    "small depthwise": (1, 960, 7, 7, 960, 3, 3, 1, 1, 1, 960),
    "wide depthwise": (1, 16, 20, 20, 16, 7, 7, 1, 3, 1, 16),
}
BYTES = [(384, 768, 3072), (1, 768, 768), (7, 4, 5), (128, 64, 64)]
WORKLOADS = [
    *(Workload("conv2d", dims, "f32", (), "") for dims in CONVOLUTIONS.values()),
    *(Workload("matmul_int8", dims, "f32", (), "") for dims in BYTES),
]


@pytest.mark.parametrize("gpu", ["", "nvidia/hopper", "qualcomm", "software"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_the_space_is_small_and_fits(workload: Workload, gpu: str) -> None:
    device = replace(DeviceProfile("id", "chromium+webgpu"), gpu=typical(gpu))
    entries = build_lite_space(workload, device, False).entries
    assert 1 <= len(entries) <= 80
    problem = row_of(workload.kind).webgpu(workload, typical(gpu)).problem
    for entry in entries[::5]:
        c = entry.candidate
        assert isinstance(c, GpuCandidate)
        assert all(v.ok and v.text for v in explain(c, workload, device, False))
        assert entry.usage == usage_of(c, workload, device, False) and entry.reason
        assert problem.threads(c) <= 256
        assert problem.shared_bytes(c) <= problem.gpu.limit("maxComputeWorkgroupStorageSize")
    first = entries[0].candidate
    point = point_of("group", first, workload, device, 1000.0)
    assert all(map(math.isfinite, (point.mean, *point.numbers)))


@pytest.mark.parametrize("dims", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_an_untuned_convolution_runs_on_every_device(dims: tuple[int, ...]) -> None:
    problem, c = conv2d_gpu_problem(dims, typical("")), untuned_conv2d(dims)
    assert problem.threads(c) <= DEFAULT_LIMITS["maxComputeInvocationsPerWorkgroup"]
    assert problem.shared_bytes(c) <= DEFAULT_LIMITS["maxComputeWorkgroupStorageSize"]
    if isinstance(problem, DepthwiseProblem):
        assert c.x0 * c.y0 * problem.k <= MOST_PRODUCTS


def test_sizes_of_the_product_in_a_convolution() -> None:
    p = conv2d_gpu_problem(CONVOLUTIONS["grouped"], typical(""))
    assert (p.batch, p.m, p.k, p.n) == (32, 4, 36, 196)
    p = conv2d_gpu_problem(CONVOLUTIONS["sequence"], typical(""))
    assert (p.batch, p.m, p.k, p.n) == (1, 384, 240, 1500)
    p = conv2d_gpu_problem(CONVOLUTIONS["depthwise"], typical(""))
    assert (p.batch, p.m, p.k, p.n) == (96, 56, 9, 56)


def test_tall_tiles_of_bytes_sum_columns_less_often() -> None:
    problem = Int8Problem(1, 1024, 256, 1024, typical("nvidia/hopper"), False)
    low, tall = GpuCandidate(8, 2, 4, 64, 64, 16), GpuCandidate(2, 8, 4, 64, 64, 16)
    assert problem.cost(low) > problem.cost(tall)
    row = Workload("matmul_int8", (1, 768, 768), "f32", (), "")
    space = row_of(row.kind).webgpu(row, typical("nvidia/hopper"))
    assert 8 in {c.y1 for c in space.find(space.problem)}  # few rows do not fill tiles of 16
    assert space.problem.threads(untuned_int8(1, 768, 768)) <= 256


def test_what_is_out_has_a_reason() -> None:
    device = replace(DeviceProfile("id", "chromium+webgpu"), gpu=typical("nvidia/hopper"))
    depthwise = Workload("conv2d", CONVOLUTIONS["depthwise"], "f32", (), "")
    for out, rule in (
        (GpuCandidate(4, 2, 1, 128, 2, 1, split=2), "template"),
        (GpuCandidate(4, 2, 1, 16, 2, 1), "threads"),
        (GpuCandidate(8, 64, 1, 512, 64, 1), "function_size"),
    ):
        assert not {v.rule: v.ok for v in explain(out, depthwise, device, False)}[rule]
    with pytest.raises(UserError, match="written conv2d"):
        build_lite_space(Workload("conv2d", (1, 2, 3), "f32", (), ""), device, False)
    with pytest.raises(UserError, match="256 taps"):
        build_lite_space(
            Workload("conv2d", (1, 4, 40, 40, 4, 31, 31, 1, 15, 1, 4), "f32", (), ""), device, False
        )
    with pytest.raises(UserError, match="no wider space"):
        build_wide_space(depthwise, device, False)
    middle = Workload("conv2d", CONVOLUTIONS["middle"], "f32", (), "")
    assert len(build_wide_space(middle, device, False, 2)) > len(
        build_lite_space(middle, device, False).entries
    )


def test_the_second_tier_wants_subgroups_and_packed_words() -> None:
    gpu = typical("nvidia/hopper")
    both = replace(
        gpu, features=("subgroups",), language_features=("packed_4x8_integer_dot_product",)
    )
    assert gpu_tiers(both) == ("wgsl", "wgsl-subgroups")
    assert gpu_tiers(replace(both, features=())) == ("wgsl",)
    assert gpu_tiers(replace(both, language_features=())) == ("wgsl",)
