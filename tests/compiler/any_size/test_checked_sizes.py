"""Which sizes the check of a bundle's numbers looks at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from nnjit_studio.compiler.any_size.checked import checked
from nnjit_studio.compiler.any_size.numbers import difference, off_by_rows
from nnjit_studio.model.size import Dim

RNG = np.random.default_rng(3)


def test_sizes_besides_are_looked_at_where_they_are_in_range() -> None:
    """What the probe found far off may lie outside of a range that a constant narrowed (a window
    of silero-vad): the export ended there."""
    seen: list[dict[str, int]] = []
    dim = Dim("n", 576, 703)
    plan = SimpleNamespace(example={"n": 576}, dims=(dim,), buffers=(), kernels={})
    model: Any = SimpleNamespace(plan=plan, check=lambda at, *_: seen.extend(at))
    checked(model, [{"n": 208}, {"n": 640}])
    assert {"n": 640} in seen and all(dim.takes(at["n"]) for at in seen)


def test_rows_of_alike_scores_may_change_places() -> None:
    """As the 300 boxes of YOLO26 on noise: two whose scores differ in their last digit."""
    boxes = RNG.uniform(0, 640, (2, 300, 4))
    scores = np.sort(RNG.uniform(0.1, 1, (2, 300, 1)), axis=1)[:, ::-1]
    classes = np.zeros((2, 300, 1))
    wanted = np.concatenate([boxes, scores, classes], axis=-1)
    moved = wanted.copy()
    for place in range(10, 290, 20):
        moved[1, [place, place + 1], :4] = moved[1, [place + 1, place], :4]
    assert difference(moved, wanted) > 0.1 and off_by_rows(moved, wanted, 1e-3) <= 1e-3
    moved[0, 299] = moved[0, 0]  # a row twice, and one of the wanted rows is lost
    moved[0, 299, 4] = wanted[0, 299, 4]
    assert off_by_rows(moved, wanted, 1e-3) <= 1e-3, "one in 300, as at the end of the order"
    moved[0, 200:205, 0] += 9
    assert off_by_rows(moved, wanted, 1e-3) == float("inf"), "boxes that are no others"
    assert off_by_rows(wanted[:, ::-1], wanted, 1e-3) == float("inf"), "another order of scores"
    assert off_by_rows(boxes[:, ::-1], boxes, 1e-3) == float("inf"), "no score says the order"
    same = np.concatenate([boxes, classes], axis=-1)
    assert off_by_rows(same[:, ::-1], same, 1e-3) == float("inf"), "a class is no score"
