"""Dimensions with a range of their own, and ways to leave fewer of them open."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nnjit_studio.compiler.any_size.narrower import Tried, narrower
from nnjit_studio.compiler.any_size.probe import Probe, probe
from nnjit_studio.compiler.any_size.refusal import COMPUTED, DIFFERENT_STEPS
from nnjit_studio.compiler.any_size.runs.importer import Form
from nnjit_studio.errors import UserError
from nnjit_studio.model.size import Dim

BATCH, HEIGHT, WIDTH = Dim("batch"), Dim("height", 1, 80), Dim("width")
EXAMPLE = {"batch": 1, "height": 48, "width": 192}


def test_small_sizes_go_first_then_dimensions_with_a_range() -> None:
    found = Probe({}, (BATCH, HEIGHT, WIDTH), {}, (), ())
    ways = list(narrower(found, EXAMPLE))
    assert ways[0] == found
    assert [d.low for d in ways[1].dims] == [1, 48, 1]
    kept = [dict(way.fixed) for way in ways[2:]]
    assert kept[0] == {"height": 48}
    assert {"batch": 1} in kept and {"width": 192} in kept
    assert {"height": 48, "batch": 1} in kept and len(kept) == 6


def test_nothing_open_has_no_way() -> None:
    assert not list(narrower(Probe({}, (), {}, (), ()), {}))


def test_forms_that_would_be_refused_again_are_left_out() -> None:
    """YOLO26's grid of anchors is a constant at odd sizes too: two forms took eight imports."""
    found = Probe({}, (BATCH, WIDTH), {}, (), ())
    narrow = found.without(["batch"], EXAMPLE)
    plain, kept = Form(), Form(keeps_ranges=True)
    odd, kept_odd = Form(odd=True), Form(keeps_ranges=True, odd=True)
    apart = Form(joins_apart=True)
    tried = Tried(found)
    assert tried.rules_out(found, kept) and not tried.rules_out(found, plain)
    tried.note(found, plain, f"it holds a constant of [2] {COMPUTED}", ranges=True)
    assert not tried.rules_out(found, kept) and not tried.rules_out(narrow, plain)
    assert tried.rules_out(found, odd) and tried.rules_out(found, apart)
    tried.note(found, kept, "a number has no formula", ranges=False)
    assert tried.rules_out(found, kept_odd) and not tried.rules_out(narrow, kept)
    steps = Tried(found)
    steps.note(found, plain, DIFFERENT_STEPS, ranges=False)
    assert not steps.rules_out(found, odd) and not steps.rules_out(found, apart)


class Windows:
    """Runs at lengths of one range, as a network that wants one window does."""

    inputs: ClassVar[dict[str, Any]] = {"x": ("batch", "length")}
    tensors, slides = ("x",), ()

    def run(self, sizes: dict[str, int], names: Any = ()) -> dict[str, tuple[int, ...]]:
        if not self.runs(sizes):
            raise UserError("It does not run.", "")
        return {"x": (sizes["batch"], sizes["length"])}

    looked_at = run

    def runs(self, sizes: dict[str, int]) -> bool:
        return sizes["batch"] >= 1 and 192 <= sizes["length"] <= 703


def test_a_range_of_lengths_is_found_to_its_ends() -> None:
    trial: Any = Windows()
    found = probe(trial, {"x": np.zeros((1, 512))})
    assert found.dims == (Dim("batch"), Dim("length", 192, 703))
    assert all(192 <= sample["length"] <= 703 for sample in found.samples)


class Lines(Windows):
    """Runs from a height on."""

    def runs(self, sizes: dict[str, int]) -> bool:
        return sizes["batch"] >= 1 and sizes["length"] >= 33


def test_a_range_begins_at_the_first_size_that_runs() -> None:
    trial: Any = Lines()
    for length in (48, 64, 224):
        found = probe(trial, {"x": np.zeros((1, length))})
        assert found.dims == (Dim("batch"), Dim("length", 33))
