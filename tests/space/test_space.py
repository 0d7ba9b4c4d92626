"""The lite space: its size, its order, and why each candidate is in or out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.lab import is_lab, lab_of, lab_target
from nnjit_studio.space import Candidate, LiteSpace, build_lite_space, explain, naive_size
from nnjit_studio.space.wasm.heuristics import splits
from nnjit_studio.space.wide_space import build_wide_space

DEVICE = DeviceProfile("cpu", "embedded", vector_registers=16, l1_bytes=32768, l2_bytes=524288)
K0 = Workload("matmul", (384, 768, 768), "f32")
K2 = Workload("batch_matmul", (12, 384, 384, 64), "f32")
PAPER = (
    (K0, True),
    (Workload("matmul", (640, 768, 3072), "f32"), True),
    (K2, False),
    (Workload("batch_matmul", (120, 64, 64, 64), "f32"), False),
)
"""K0 to K3 of Table 3."""
CONV = Workload("conv2d", (1, 64, 56, 56, 64, 3, 3, 1, 1, 1, 1), "f32")
BEST = Candidate(x0=8, y0=6, r0=4, x1=8, y1=6, r1=768, order="nm", pack=True)


def tiles(space: LiteSpace) -> set[tuple[int, int]]:
    """Rows x columns, as engineers say it."""
    return {(e.candidate.y0, e.candidate.x0) for e in space.entries}


def failing(candidate: Candidate, workload: Workload = K0, packable: bool = True) -> set[str]:
    return {v.rule for v in explain(candidate, workload, DEVICE, packable) if not v.ok}


@pytest.mark.parametrize(("workload", "packable"), [(K0, True), (K2, False)])
def test_kernels_of_the_paper_have_dozens_of_candidates(workload: Workload, packable: bool) -> None:
    space = build_lite_space(workload, DEVICE, packable)
    assert 10 <= len(space.entries) <= 48
    assert {(4, 8), (5, 8), (6, 8), (8, 4), (12, 4), (2, 16)} <= tiles(space)
    assert not {(8, 8), (3, 16), (4, 16)} & tiles(space), "they spill 16 registers"
    assert all(e.candidate.pack == packable for e in space.entries)
    assert len({e.candidate for e in space.entries}) == len(space.entries)
    assert space.naive_size > 50_000 * len(space.entries)


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("l1_bytes", [32768, 49152, 131072])
@pytest.mark.parametrize(("workload", "packable"), PAPER)
def test_spaces_of_the_papers_kernels_are_dozens_on_any_device(
    workload: Workload, packable: bool, l1_bytes: int, registers: int
) -> None:
    device = replace(DEVICE, vector_registers=registers, l1_bytes=l1_bytes)
    space = build_lite_space(workload, device, packable)
    assert 10 <= len(space.entries) <= 48
    for entry in space.entries:
        assert 0 < entry.usage.registers <= 1.02 * 4 * registers
        assert entry.usage.l1_bytes > 0
        assert entry.usage.blocks_per_core == 1


def test_naive_space_of_the_papers_matmul_is_that_of_its_table_6() -> None:
    assert naive_size(K0) == 2_099_520
    assert naive_size(K2) == 2_322_432


def test_loops_split_into_factors_or_with_remainders() -> None:
    assert splits(768, 3) == 45 * 3
    assert splits(12, 2) == 6
    assert splits(97, 3) == 36  # as 128
    assert splits(1, 3) == 1


def test_a_wider_space_holds_the_lite_one_and_is_the_same_every_time() -> None:
    for workload, packable in (*PAPER, (CONV, False)):
        lite = [e.candidate for e in build_lite_space(workload, DEVICE, packable).entries]
        wide = build_wide_space(workload, DEVICE, packable)
        assert wide[: len(lite)] == tuple(lite)
        assert len(set(wide)) == len(wide) == 10 * len(lite)
        assert wide == build_wide_space(workload, DEVICE, packable)
        assert len({(c.x0, c.y0) for c in wide}) > 2 * len({(c.x0, c.y0) for c in lite})


def test_where_there_is_no_wider_space_the_backend_is_named() -> None:
    attention = Workload("attention", (12, 128, 128, 32), "f32")
    with pytest.raises(UserError, match=r"no wider space of .* in Wasm"):
        build_wide_space(attention, DEVICE, False)


def test_more_registers_give_larger_tiles() -> None:
    wide = build_lite_space(K0, replace(DEVICE, vector_registers=32), True)
    assert {(12, 8), (6, 16)} <= tiles(wide)
    assert (2, 16) not in tiles(wide)


def test_packed_pairs_of_vectors_double_the_registers() -> None:
    lab = replace(DEVICE, flags="--no-sandbox --js-flags=--experimental-wasm-revectorize")
    space = build_lite_space(K0, lab, True)
    assert {(6, 16), (4, 16), (8, 8)} <= tiles(space)
    assert all(e.candidate.x0 % 8 == 0 for e in space.entries)
    assert 10 <= len(space.entries) <= 48
    verdicts = {v.rule: v for v in explain(replace(BEST, x0=4, x1=4, y0=12, y1=12), K0, lab, True)}
    assert not verdicts["simd_width"].ok and "256 bits" in verdicts["simd_width"].text
    narrow = build_lite_space(Workload("matmul", (384, 768, 4), "f32"), lab, True)
    assert {e.candidate.x0 for e in narrow.entries} == {4}


def test_a_lab_mode_is_a_target_of_its_own() -> None:
    flags = "--no-sandbox --js-flags=--no-liftoff,--experimental-wasm-revectorize"
    assert lab_of(flags) == "revectorize" and lab_of("--no-sandbox") == ""
    assert lab_target("embedded", "") == "embedded" and not is_lab("embedded")
    assert is_lab(lab_target("embedded", flags)) and is_lab(lab_target("embedded", flags) + "/2t")


def test_first_choices_stand_in_front_and_by_intensity() -> None:
    entries = build_lite_space(K0, DEVICE, True).entries
    flags = [bool(e.varies) for e in entries]
    assert flags == sorted(flags)
    first = [e.candidate for e in entries if not e.varies]
    strength = [c.x0 * c.y0 / (c.x0 + c.y0) for c in first]
    assert strength == sorted(strength, reverse=True)
    assert BEST in first[:3]


def test_explanation_states_the_numbers() -> None:
    texts = {v.rule: v.text for v in explain(BEST, K0, DEVICE, True)}
    assert texts["registers"].startswith(
        "Reg_thread 62 of 64 elements (8*1 + 1*6 + 8*6, 16 vector registers x 4)"
    )
    assert texts["l1_cache"].startswith(
        "L1_block 42.2 of 32 KiB ((8*768 + 768*6 + 8*6) * 4 bytes, relaxed to 44.8 KiB)"
    )


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"x0": 6, "x1": 6}, "simd_width"),
        ({"y0": 7, "y1": 7}, "power_of_two"),
        ({"r0": 3}, "power_of_two"),
        ({"r1": 96}, "power_of_two"),
        ({"x0": 16, "x1": 16}, "registers"),
        ({"y0": 2, "y1": 2}, "registers"),
        ({"x1": 16}, "block_shape"),
        ({"pack": False}, "packing"),
        ({"y0": 16, "y1": 16, "x0": 32, "x1": 32, "r0": 8}, "function_size"),
        ({"r0": 2, "order": "mn"}, "one_at_a_time"),
        ({"x0": 16, "x1": 16, "y0": 2, "y1": 2, "r0": 1}, "one_at_a_time"),
        ({"r1": 256}, "depth"),
    ],
)
def test_each_rule_can_exclude(change: dict[str, int], rule: str) -> None:
    assert failing(BEST) == set()
    assert rule in failing(replace(BEST, **change))  # type: ignore[arg-type]


def test_a_reduction_beyond_l2_is_blocked() -> None:
    deep = Workload("matmul", (384, 20000, 768), "f32")
    assert "l1_cache" in failing(replace(BEST, r1=20000), deep)
    assert all(e.candidate.r1 < 20000 for e in build_lite_space(deep, DEVICE, True).entries)


def test_tile_larger_than_the_problem_is_out() -> None:
    small = Workload("matmul", (4, 768, 6), "f32")
    assert "problem_size" in failing(BEST, small)
    wide = replace(BEST, x0=16, x1=16, y0=4, y1=4)
    assert "problem_size" in failing(wide, small)


def test_order_varies_only_where_it_can_differ() -> None:
    one_row_of_tiles = Workload("matmul", (6, 768, 768), "f32")
    assert "loop_order" in failing(replace(BEST, order="mn"), one_row_of_tiles)
    assert failing(replace(BEST, order="mn")) == set()


def test_row_vector_gets_wide_tiles_and_says_so() -> None:
    row = Workload("matmul", (1, 768, 768), "f32")
    space = build_lite_space(row, DEVICE, True)
    assert {(1, 16), (1, 32)} <= tiles(space)
    assert len(space.entries) >= 10
    assert all("relaxed from 0.6" in e.reason for e in space.entries if e.candidate.x0 < 32)


def test_panels_must_find_room_in_the_weights_buffer() -> None:
    narrow = Workload("matmul", (384, 768, 8), "f32")
    assert all(e.candidate.x0 <= 16 for e in build_lite_space(narrow, DEVICE, True).entries)
    odd = Workload("matmul", (1, 768, 1000), "f32")  # 32-wide panels pad to 1024, room for 1008
    assert "packing" in failing(Candidate(32, 1, 4, 32, 1, 768), odd)
    assert (1, 32) in tiles(build_lite_space(odd, DEVICE, False))


@pytest.mark.parametrize(
    "workload",
    [Workload("softmax", (12, 384, 384), "f32"), Workload("matmul", (8, 8, 8), "f16")],
)
def test_other_workloads_have_no_space(workload: Workload) -> None:
    with pytest.raises(UserError, match="no lite space"):
        build_lite_space(workload, DEVICE, False)


@settings(max_examples=60)
@given(
    m=st.integers(4, 2000),
    k=st.integers(1, 5000),
    n=st.integers(8, 4000),
    registers=st.sampled_from((8, 15, 16, 32)),
    packable=st.booleans(),
)
def test_any_problem_has_between_eight_and_sixty_four(
    m: int, k: int, n: int, registers: int, packable: bool
) -> None:
    device = replace(DEVICE, vector_registers=registers)
    workload = Workload("matmul", (m, k, n), "f32")
    entries = build_lite_space(workload, device, packable).entries
    assert 8 <= len(entries) <= 64
    for entry in entries[:3] + entries[-3:]:
        assert all(v.ok for v in explain(entry.candidate, workload, device, packable))


@settings(max_examples=100)
@given(
    x0=st.sampled_from((4, 8, 12, 16)),
    y0=st.integers(1, 9),
    r0=st.sampled_from((1, 2, 3, 4, 8)),
    r1=st.sampled_from((64, 256, 512, 768)),
    order=st.sampled_from(("nm", "mn")),
)
def test_explanation_and_space_agree(x0: int, y0: int, r0: int, r1: int, order: str) -> None:
    candidate = Candidate(x0, y0, r0, x0, y0, r1, order, True)
    entries = build_lite_space(K0, DEVICE, True).entries
    assert (candidate in [e.candidate for e in entries]) == (not failing(candidate))
