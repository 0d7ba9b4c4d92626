"""Sizes: the canonical form proves equality, intervals prove order, values are Python's own."""

from __future__ import annotations

import random

from nnjit_studio.model.size import Dim, Size, as_function, as_test, least, most, size

H, W, B = size(Dim("h", 2, 640)), size(Dim("w", 2, 640)), size(Dim("b", 1, 8))


def test_equal_sizes_have_one_form() -> None:
    assert H * W * B == B * (W * H)
    assert (H + 1) * (H - 1) == H * H - 1
    assert size(0) == H - H
    assert hash(B * H + W) == hash(W + H * B)


def test_divisions_of_divisions_are_one() -> None:
    assert (H // 2) // 2 == H // 4
    assert ((H + 1) // 2 + 1) // 2 == (H + 3) // 4
    assert (H * 6 + 4) // 2 == H * 3 + 2
    assert (H * 4 + W) // 4 == H + W // 4
    assert size(7) // 2 == size(3)


def test_the_smaller_one_is_known_where_ranges_tell() -> None:
    assert least(B, H + 8) == B
    assert most(B, H + 8) == H + 8
    assert least(H, W).dims == {Dim("h", 2, 640), Dim("w", 2, 640)}
    assert least(H, W) == least(W, H)
    assert (H // 2).at_most(H)
    assert not H.at_most(W)


def test_values_and_bounds_are_those_of_python() -> None:
    rng = random.Random(1)
    for _ in range(300):
        made, value = size(rng.randint(-3, 9)), None
        sizes = {"h": rng.randint(2, 640), "w": rng.randint(2, 640), "b": rng.randint(1, 8)}
        value = made.at(sizes)
        for _ in range(4):
            other = rng.choice([H, W, B, size(rng.randint(-5, 5))])
            n, by = other.at(sizes), rng.randint(1, 7)
            made, value = rng.choice(
                [
                    (made + other, value + n),
                    (made - other, value - n),
                    (made * other, value * n),
                    (made // by, value // by),
                    (least(made, other), min(value, n)),
                    (most(made, other), max(value, n)),
                ]
            )
        assert made.at(sizes) == value, str(made)
        assert as_function([made, H])(sizes) == (value, sizes["h"])
        assert as_test([(made, 7, value % 7), (H, 2, sizes["h"] % 2)])(sizes)
        assert not as_test([(H, 1, 0), (made, 7, (value + 1) % 7)])(sizes)
        low, high = made.bounds()
        assert low <= value <= high
        assert isinstance(made, Size)
