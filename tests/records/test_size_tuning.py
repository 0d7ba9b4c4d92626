"""Which settings a kernel for any size takes, of what was measured at several sizes."""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.records import KernelKey
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.size_tuning import AtSize, SizeTuning, settings_of_size

KEY = KernelKey("matmul", "?x64x64", "f32", "row-major", "f", "", "cpu", "t", "simd128", "1")
GUESS = str(Candidate(8, 6, 4, 8, 6, 64))
FEW = str(Candidate(8, 2, 4, 8, 2, 64))
MANY = str(Candidate(8, 5, 4, 8, 5, 64))
WIDE = str(Candidate(16, 2, 4, 16, 2, 64))
Known = dict[str, tuple[float, float, float]]


def tuning(*rows: tuple[int, float, Known]) -> SizeTuning:
    """Of sizes with their shares; a run takes as many ms as the size says."""
    at = tuple(AtSize(n, f"matmul:{n}", share, float(n), told) for n, share, told in rows)
    return SizeTuning(KEY, "matmul:?x64x64:f32#f", GUESS, at)


def test_nothing_proven_leaves_the_first_guess() -> None:
    found = tuning((16, 0.5, {FEW: (1.2, 0.9, 1.5)}), (64, 0.5, {FEW: (1.1, 0.99, 1.2)}))
    assert found.table == ((None, "default"),)
    assert found.ms(found.table) == 40


def test_a_loss_counts_though_it_is_not_proven() -> None:
    rows = (16, 0.5, {FEW: (1.1, 1.05, 1.2)}), (64, 0.5, {FEW: (0.9, 0.7, 1.2)})
    assert tuning(*rows).table == ((None, "default"),)


def test_what_won_before_stays_unless_it_is_proven_slower() -> None:
    noisy = tuning((16, 0.5, {FEW: (0.9, 0.6, 1.4)}), (64, 0.5, {FEW: (1.1, 0.7, 1.8)}))
    assert noisy.table == ((None, "default"),)
    assert replace(noisy, before=FEW).table == ((None, FEW),)
    slower = tuning((16, 0.5, {FEW: (0.9, 0.8, 0.95)}), (64, 0.5, {FEW: (1.1, 0.7, 1.8)}))
    assert replace(slower, before=FEW).table == ((None, "default"),)


def test_shares_decide_what_is_best_for_all() -> None:
    told: list[Known] = [{FEW: (1.02, 1.01, 1.03)}, {FEW: (0.99, 0.98, 0.995)}]
    assert tuning((16, 0.9, told[0]), (64, 0.1, told[1])).table == ((None, FEW),)
    assert tuning((16, 0.1, told[0]), (64, 0.9, told[1])).table == ((None, "default"),)


def test_intervals_end_between_sizes_that_differ() -> None:
    found = tuning(
        (16, 0.4, {FEW: (1.5, 1.4, 1.6), MANY: (0.8, 0.7, 0.9)}),
        (64, 0.3, {FEW: (0.9, 0.8, 0.95), MANY: (0.7, 0.6, 0.8)}),
        (256, 0.3, {FEW: (0.8, 0.7, 0.9), MANY: (1.2, 1.1, 1.3)}),
    )
    assert found.table == ((32, FEW), (128, "default"), (None, MANY))
    chosen = [settings_of_size(found.table, n) for n in (1, 32, 33, 128, 129, 4096)]
    assert chosen == [FEW, FEW, "default", "default", MANY, MANY]
    assert found.ms(found.table) < found.ms(((None, MANY),)) < found.ms(((None, FEW),))


def test_what_is_not_told_apart_is_one_interval() -> None:
    rows: list[Known] = [
        {FEW: (1.2, 1.1, 1.3), MANY: (1.15, 1.05, 1.25)},
        {FEW: (1.15, 1.05, 1.25), MANY: (1.2, 1.1, 1.3)},
    ]
    assert len(tuning((16, 0.5, rows[0]), (64, 0.5, rows[1])).table) == 1


def test_a_gain_too_small_for_its_code_is_left() -> None:
    rows = (16, 0.01, {FEW: (1.5, 1.4, 1.6)}), (256, 0.99, {FEW: (0.9, 0.8, 0.95)})
    assert tuning(*rows).table == ((None, "default"),)


def test_all_intervals_have_panels_of_one_width() -> None:
    rows: list[Known] = [
        {WIDE: (1.5, 1.4, 1.6), MANY: (0.9, 0.8, 0.95)},
        {WIDE: (0.5, 0.4, 0.6), MANY: (1.2, 1.1, 1.3)},
    ]
    found = tuning((16, 0.9, rows[0]), (256, 0.1, rows[1]))
    assert found.table == ((64, "default"), (None, MANY))


def test_no_interval_ends_inside_one_size() -> None:
    few: Known = {FEW: (1.5, 1.4, 1.6), MANY: (0.8, 0.7, 0.9)}
    many: Known = {FEW: (0.8, 0.7, 0.9), MANY: (1.5, 1.4, 1.6)}
    found = tuning((16, 0.3, few), (16, 0.3, many), (64, 0.4, many))
    ends = [end for end, _ in found.table]
    assert ends in ([None], [32, None])
