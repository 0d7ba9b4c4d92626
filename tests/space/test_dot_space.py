"""The lite space of matmuls that read B along the reduction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.space import Candidate, build_lite_space, explain, naive_size
from nnjit_studio.space.wasm.dot import vectors
from nnjit_studio.space.wide_space import build_wide_space
from nnjit_studio.tuner.search.cost_model import FEATURES, CostModel, features, point_of

DEVICE = DeviceProfile("test", "test")
SCORES = Workload("batch_matmul_dot", (12, 384, 64, 384), "f32", tunable=True)
BIASED = replace(SCORES, epilogue=("scale", "residual"))
SHAPES = {
    "scores": SCORES.dims,
    "prefill": (768, 768, 50257),
    "a head's one row": (1, 768, 50257),
    "one query": (12, 1, 64, 128),
    "odd": (77, 333, 50),
    "three columns": (64, 20, 3),
}


def workload(shape: str) -> Workload:
    dims = SHAPES[shape]
    return Workload(("", "batch_")[len(dims) == 4] + "matmul_dot", dims, "f32", tunable=True)


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("shape", SHAPES)
def test_dozens_of_candidates_each_accepted_by_every_rule(shape: str, registers: int) -> None:
    subject, device = workload(shape), replace(DEVICE, vector_registers=registers)
    space = build_lite_space(subject, device, False)
    candidates = [e.candidate for e in space.entries]
    assert 10 <= len(candidates) <= 48
    assert len(set(candidates)) == len(candidates)
    assert space.naive_size == naive_size(subject) > 100 * len(candidates)
    for entry in space.entries:
        assert all(v.ok for v in explain(entry.candidate, subject, device, False))
        assert vectors(entry.candidate.x0, entry.candidate.y0) <= registers
        assert entry.usage.l1_bytes > 0
        assert "vector registers" in entry.reason


def test_first_choices_of_all_tiles_come_before_variations() -> None:
    entries = build_lite_space(SCORES, DEVICE, False).entries
    varied = [entry.varies != "" for entry in entries]
    assert varied == sorted(varied)
    assert {e.varies for e in entries} == {"", "r0", "x1", "order"}


def test_an_epilogue_wants_whole_vectors_of_results() -> None:
    def first(subject: Workload) -> tuple[int, int]:
        candidate = build_lite_space(subject, DEVICE, False).entries[0].candidate
        return candidate.y0, candidate.x0

    assert first(SCORES) == (2, 6)
    assert first(BIASED) == (2, 4)


def test_why_a_setting_is_out() -> None:
    base = Candidate(6, 2, 4, 6, 2, 64, "nm", False)

    def refused(candidate: Candidate) -> set[str]:
        return {v.rule for v in explain(candidate, SCORES, DEVICE, False) if not v.ok}

    assert refused(base) == set()
    assert "choices" in refused(replace(base, x0=7, x1=7))
    assert refused(replace(base, x0=4, x1=4, y0=4, y1=4)) == {"registers"}
    assert "problem_size" in refused(replace(base, r0=32))
    assert "function_size" in refused(replace(base, y0=8, y1=8, r0=8))
    assert "fixed" in refused(replace(base, r1=32))
    assert "fixed" in refused(replace(base, pack=True))
    assert refused(replace(base, x1=12)) == {"l1_cache"}
    assert refused(replace(base, r0=2, order="mn")) == {"one_at_a_time"}
    one_row = replace(SCORES, dims=(12, 1, 64, 384))
    row = Candidate(8, 1, 4, 8, 1, 64, "mn", False)
    assert {v.rule for v in explain(row, one_row, DEVICE, False) if not v.ok} == {"loop_order"}


def test_rows_of_a_block_stay_in_l1() -> None:
    for k in (16, 64, 256, 4096):
        subject = replace(SCORES, dims=(2, 512, k, 512))
        for entry in build_lite_space(subject, DEVICE, False).entries:
            c = entry.candidate
            assert c.y1 == c.y0 or c.y1 * k * 4 <= DEVICE.l1_bytes / 2
            assert c.y1 % c.y0 == 0 and c.x1 % c.x0 == 0


def test_halves_and_unknown_dims_have_no_space() -> None:
    for wrong in (replace(SCORES, dtype="f16"), replace(SCORES, dims=(2, 3, 4))):
        with pytest.raises(UserError, match="no lite space"):
            build_lite_space(wrong, DEVICE, False)


def test_the_wide_space_holds_the_lite_one_and_tiles_that_spill() -> None:
    lite = [e.candidate for e in build_lite_space(SCORES, DEVICE, False).entries]
    wide = build_wide_space(SCORES, DEVICE, False)
    assert list(wide[: len(lite)]) == lite
    assert len(set(wide)) == len(wide) == 10 * len(lite)
    assert any(vectors(c.x0, c.y0) > DEVICE.vector_registers for c in wide)


def test_before_any_measurement_full_tiles_that_do_not_spill_are_expected_first() -> None:
    for subject, tile in ((SCORES, (2, 6)), (BIASED, (2, 4))):
        entries = build_lite_space(subject, DEVICE, False).entries
        found = [point_of("a", e.candidate, subject, DEVICE, 50.0) for e in entries]
        best = entries[int(np.argmax(CostModel().predict(found)[0]))].candidate
        assert (best.y0, best.x0) == tile


def test_features_count_a_vector_for_each_sum() -> None:
    def of(c: Candidate, w: Workload = SCORES) -> dict[str, float]:
        return dict(zip(FEATURES, features(c, w, DEVICE), strict=True))

    base = Candidate(6, 2, 4, 6, 2, 64, "nm", False)
    assert of(base)["spilled"] == of(base)["few_sums"] == of(base)["narrow_rows"] == 0
    assert of(replace(base, x0=4, y0=4))["spilled"] == pytest.approx(22 / 16 - 1)
    assert of(replace(base, x0=2))["few_sums"] == 0.5
    assert of(base, BIASED)["narrow_rows"] == pytest.approx(1 / 3)
    assert of(replace(base, x1=48, y1=32))["block_rows"] == 1
