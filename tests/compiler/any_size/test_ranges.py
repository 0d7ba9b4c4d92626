"""Remainders that sizes can leave, and ranges in which a model's numbers are right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nnjit_studio.compiler.any_size.checked import Compiled, checked
from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.compiler.any_size.kernels.remainders import remainders
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.errors import ModelError
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.size import Dim, least, size

BATCH, HEIGHT = Dim("batch"), Dim("height", 32, step=32)


def test_an_even_product_leaves_even_remainders() -> None:
    assert remainders([(size(BATCH) * 2048, 6)]) == {(0,), (2,), (4,)}


def test_rows_of_a_strided_map_leave_what_their_sizes_do() -> None:
    rows = (size(HEIGHT) // 2) * (size(HEIGHT) // 2)
    seen = {(n // 2 * (n // 2) % 6,) for n in range(32, 32 * 200, 32)}
    assert remainders([(rows, 6)]) == seen
    assert remainders([(size(BATCH) // 3, 4)]) == {(0,), (1,), (2,), (3,)}


def test_remainders_of_two_selectors_are_those_that_come_together() -> None:
    assert remainders([(size(BATCH), 2), (size(BATCH) + 1, 2)]) == {(0, 1), (1, 0)}


def test_what_is_too_long_to_look_at_leaves_all_and_a_minimum_is_refused() -> None:
    assert len(remainders([(size(BATCH) // 65537, 2)])) == 2
    with pytest.raises(ModelError, match="min"):
        remainders([(least(size(BATCH), 7), 6)])


class Fake(Compiled):
    """Right from a height on."""

    smallest = 1

    def check(self, at: Sequence[Sizes]) -> None:
        for sizes in at:
            if sizes["height"] < self.smallest:
                raise refused(f"it is wrong at {sizes['height']}")


def fake(smallest: int) -> Compiled:
    example = {"batch": 1, "height": 256}
    plan = OpenPlan("m", (BATCH, HEIGHT), example, (), (), (), (), {}, 0)
    trial: Any = None
    made = Fake(plan, (), Path(), trial, {}, False, lambda phase: None)
    made.__class__.smallest = smallest
    return made


def test_a_range_begins_where_the_numbers_are_right() -> None:
    plan, notes = checked(fake(96))
    assert [d.low for d in plan.dims] == [1, 96]
    assert len(notes) == 1 and "96 or more" in notes[0]
    assert checked(fake(1)) == (fake(1).plan, ())


def test_numbers_that_are_wrong_at_the_sizes_at_hand_are_refused() -> None:
    with pytest.raises(ModelError, match="wrong at"):
        checked(fake(1000))
