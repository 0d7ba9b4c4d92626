from __future__ import annotations

import pytest

from nnjit_studio.device.gpu_constants import typical
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import DEFAULT_LIMITS
from nnjit_studio.space.registry import row_of
from nnjit_studio.space.webgpu.attention import (
    MOST_CANDIDATES,
    attention_candidates,
    attention_problem,
    template,
    untuned_attention,
)

HOPPER = typical("nvidia/hopper")


def workload(*dims: int) -> Workload:
    return Workload("attention", dims, "f32", tunable=True)


@pytest.mark.parametrize("depth", [32, 64, 80, 128])
@pytest.mark.parametrize("queries", [384, 1])
def test_every_candidate_passes_every_rule_and_answers_why(queries: int, depth: int) -> None:
    space = row_of("attention").webgpu(workload(12, queries, 384, depth), HOPPER)
    found = space.find(space.problem)
    assert 3 <= len(found) <= MOST_CANDIDATES and len(set(found)) == len(found)
    costs = [space.problem.cost(c) for c in found]
    assert costs == sorted(costs)
    for c in found:
        assert all(rule(c, space.problem)[0] for rule in space.rules)
    assert len({c.y1 for c in found}) > 1 or queries == 1
    assert len({c.x1 for c in found}) > 1


@pytest.mark.parametrize(("x0", "x1", "fits"), [(1, 2, False), (2, 4, True), (4, 6, False)])
def test_threads_of_one_query_take_whole_vectors_of_keys(x0: int, x1: int, fits: bool) -> None:
    problem = attention_problem(workload(32, 1, 392, 128), HOPPER)
    assert template(GpuCandidate(x0, 1, 1, x1, 1, 1), problem)[0] == fits


def test_many_keys_of_one_query_are_split_and_many_workgroups_are_not() -> None:
    long = attention_problem(workload(12, 1, 1024, 64), HOPPER)
    assert attention_candidates(long)[0].split > 1
    busy = attention_problem(workload(96, 512, 512, 64), HOPPER)
    assert all(c.split == 1 for c in attention_candidates(busy))


@pytest.mark.parametrize("dims", [(12, 128, 128, 32), (32, 512, 512, 128), (2, 7, 264, 64)])
def test_untuned_settings_fit_every_device(dims: tuple[int, ...]) -> None:
    c, problem = untuned_attention(dims), attention_problem(workload(*dims), HOPPER)
    assert problem.shared_bytes(c) <= DEFAULT_LIMITS["maxComputeWorkgroupStorageSize"]
    assert problem.threads(c) <= DEFAULT_LIMITS["maxComputeInvocationsPerWorkgroup"]
    assert not problem.by_row(c)


def test_few_queries_may_have_a_workgroup_each_and_many_may_not() -> None:
    one = GpuCandidate(4, 1, 1, 64, 1, 1)
    few, many = (attention_problem(workload(2, m, 264, 64), HOPPER) for m in (7, 9))
    (ok, _), (refused, why) = template(one, few), template(one, many)
    assert ok and not refused and "at most 8 queries" in why
    assert {c.y1 == 1 for c in attention_candidates(few)} == {True, False}
