"""The lite space of convolutions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.space import Candidate, build_lite_space, explain, naive_size

DEVICE = DeviceProfile("test", "test")
LAYERS = {
    "resnet stem": (1, 3, 224, 224, 64, 7, 7, 2, 3, 1, 1),
    "resnet 56": (1, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1),
    "resnet 7": (1, 512, 7, 7, 512, 3, 3, 1, 1, 1, 1),
    "shortcut": (1, 64, 56, 56, 128, 1, 1, 2, 0, 1, 1),
    "mobilenet stem": (1, 3, 224, 224, 32, 3, 3, 2, 1, 1, 1),
    "depthwise": (1, 96, 112, 112, 96, 3, 3, 1, 1, 1, 96),
    "depthwise 7": (1, 960, 7, 7, 960, 3, 3, 1, 1, 1, 960),
    "depthwise five": (1, 120, 28, 28, 120, 5, 5, 1, 2, 1, 120),
    "grouped": (1, 128, 28, 28, 128, 3, 3, 1, 1, 1, 32),
    "dilated": (1, 64, 28, 28, 64, 3, 3, 1, 2, 2, 1),
    "patches": (1, 3, 224, 224, 768, 16, 16, 16, 0, 1, 1),
    "odd": (1, 37, 29, 31, 41, 3, 3, 1, 1, 1, 1),
}


def workload(dims: tuple[int, ...]) -> Workload:
    return Workload("conv2d", dims, "f32", tunable=True)


@pytest.mark.parametrize("layer", LAYERS)
def test_dozens_of_candidates_each_accepted_by_every_rule(layer: str) -> None:
    subject = workload(LAYERS[layer])
    space = build_lite_space(subject, DEVICE, False)
    candidates = [e.candidate for e in space.entries]
    assert 10 <= len(candidates) <= 60
    assert len(set(candidates)) == len(candidates)
    assert space.naive_size == naive_size(subject) > 1000 * len(candidates)
    for entry in space.entries:
        assert all(v.ok for v in explain(entry.candidate, subject, DEVICE, False))
        assert entry.reason


def test_first_choices_of_all_tiles_come_before_variations() -> None:
    entries = build_lite_space(workload(LAYERS["resnet 56"]), DEVICE, False).entries
    varied = [entry.varies != "" for entry in entries]
    assert varied == sorted(varied)
    assert {e.varies for e in entries} == {"", "r0", "x1", "order"}
    first = entries[0].candidate
    assert (first.x0, first.y0) == (8, 6)


def test_why_a_setting_is_out() -> None:
    subject = workload(LAYERS["resnet 7"])
    base = build_lite_space(subject, DEVICE, False).entries[0].candidate

    def refused(candidate: Candidate) -> set[str]:
        return {v.rule for v in explain(candidate, subject, DEVICE, False) if not v.ok}

    assert "problem_size" in refused(replace(base, x0=12))
    assert "registers" in refused(replace(base, y0=1, y1=1))
    assert "function_size" in refused(replace(base, r0=12))
    assert "unrolling" in refused(replace(base, r0=2))
    assert "l2_cache" in refused(replace(base, x1=3))
    assert "fixed" in refused(replace(base, pack=True))
    assert "one_at_a_time" in refused(replace(base, r0=1, order="nm"))


def test_large_weights_are_streamed_as_seldom_as_threads_allow() -> None:
    def blocks(layer: str, threads: int) -> list[int]:
        space = build_lite_space(workload(LAYERS[layer]), replace(DEVICE, threads=threads), False)
        return list(dict.fromkeys(e.candidate.x1 for e in space.entries))

    assert blocks("resnet 7", 1)[0] == 7, "one block: 9 MiB of weights come once"
    assert blocks("resnet 7", 2)[0] == 4, "one block for each thread"
    assert blocks("resnet 56", 1)[0] == 14, "small weights stay in the cache: four blocks"


def test_a_tile_may_cover_a_row_that_fills_no_whole_vectors() -> None:
    space = build_lite_space(workload(LAYERS["resnet 7"]), DEVICE, False)
    assert space.entries[0].candidate.x0 == 8


def test_more_registers_open_larger_tiles() -> None:
    subject = workload(LAYERS["resnet 56"])

    def largest(registers: int) -> int:
        space = build_lite_space(subject, replace(DEVICE, vector_registers=registers), False)
        return max(e.candidate.x0 * e.candidate.y0 for e in space.entries)

    assert largest(32) > largest(16)


def test_other_workloads_are_refused() -> None:
    with pytest.raises(UserError, match="lite space"):
        build_lite_space(Workload("conv2d", (1, 2, 3), "f32"), DEVICE, False)
    with pytest.raises(UserError, match="lite space"):
        build_lite_space(Workload("conv2d", LAYERS["odd"], "i8"), DEVICE, False)
