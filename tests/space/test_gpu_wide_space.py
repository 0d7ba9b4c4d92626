"""The wide space of a GPU: the lite one in front, no rule's favourites behind."""

from __future__ import annotations

import pytest
from test_tuner_gpu import DEVICE

from nnjit_studio.model import Workload
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.space.webgpu.matmul import gpu_problem
from nnjit_studio.space.webgpu.wide import KEPT_RULES
from nnjit_studio.space.wide_space import build_wide_space


@pytest.mark.parametrize("dims", [(384, 768, 768), (1, 768, 768), (5, 33, 100)])
def test_the_wide_space_is_the_lite_one_and_any_powers_of_two(dims: tuple[int, ...]) -> None:
    workload = Workload("matmul", dims, "f32", tunable=True)
    lite = [e.candidate for e in build_lite_space(workload, DEVICE, False).entries]
    wide = build_wide_space(workload, DEVICE, False, times=4)
    assert set(wide[: len(lite)]) == set(lite)
    assert len(lite) < len(wide) <= 4 * len(lite) and len(set(wide)) == len(wide)
    assert wide == build_wide_space(workload, DEVICE, False, times=4)
    assert DEVICE.gpu is not None
    problem = gpu_problem(workload, DEVICE.gpu)
    assert all(rule(c, problem)[0] for c in wide for rule in KEPT_RULES)  # type: ignore[arg-type]
