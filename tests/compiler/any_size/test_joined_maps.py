"""Maps of a detector that are flattened and joined, and sizes that strides divide."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from onnx import helper
from onnx_models import save
from test_counted import checked
from test_strides import drawn, feeds_of

from nnjit_studio.compiler.any_size.imported_sizes import sizes_to_import
from nnjit_studio.compiler.any_size.narrower import narrowed, ways
from nnjit_studio.compiler.any_size.probe import Probe, in_whole_steps, probe
from nnjit_studio.compiler.any_size.runs.importer import Form
from nnjit_studio.model.size import Dim, size


def heads(path: Path) -> Path:
    """Scores of two anchors for each place of one map and of six for each of half of it, as
    BlazeFace has: 288 of 504 are of the first map at 64x144, where no 54 are a whole part of it."""
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], strides=[2, 2]),
        helper.make_node("Conv", ["a", "w"], ["b"], strides=[2, 2]),
    ]
    for map_ in "ab":
        nodes += [
            helper.make_node("Conv", [map_, f"{map_}c"], [f"{map_}1"]),
            helper.make_node("Transpose", [f"{map_}1"], [f"{map_}2"], perm=[0, 2, 3, 1]),
            helper.make_node("Reshape", [f"{map_}2", "flat"], [f"{map_}3"]),
        ]
    nodes += [
        helper.make_node("Concat", ["a3", "b3"], ["c"], axis=1),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    held = {
        "v": drawn(4, 3, 2, 2), "w": drawn(5, 4, 2, 2), "ac": drawn(2, 4, 1, 1),
        "bc": drawn(6, 5, 1, 1), "flat": np.array([0, -1]),
    }  # fmt: skip
    inputs = {"x": ["n", 3, "h", "w_"]}
    return save(path / "m.onnx", nodes, inputs, {"y": [None, None]}, held)


def test_maps_of_any_height_and_width_are_joined_by_a_kernel_of_its_own(tmp_path: Path) -> None:
    path = heads(tmp_path)
    at = [(1, 32, 48), (2, 30, 22), (1, 17, 9), (3, 14, 40), (1, 61, 35), (2, 4, 4)]
    sizes = [dict(zip(("n", "h", "w_"), each, strict=True)) for each in at]
    made = checked(path, tmp_path, sizes, feeds_of(("n", 3, "h", "w_")))
    assert made.notes == () and {d.name for d in made.plan.dims} == {"n", "h", "w_"}


def test_a_grid_is_imported_at_sizes_at_which_no_two_of_its_lengths_meet() -> None:
    """YOLO26's has two ranges that are one at 160x320, where a sixteenth of one is an eighth."""
    dims = Dim("h", 96, step=32), Dim("w", 96, step=32)
    lengths = [size(d) // by for d in dims for by in (8, 16, 32)]
    given = (dims, [*map(size, dims), *lengths], {"h": 224, "w": 224})
    at = sizes_to_import(*given, unlike=True)
    assert all(len({n.at(sizes) for n in lengths}) == len(lengths) for sizes in at)


class Halved:
    """A map that is halved twice, rounded up."""

    inputs: ClassVar[dict[str, Any]] = {"x": ("n", "h")}
    tensors, slides, joins, signals = ("x", "y", "z"), (), True, frozenset[str]()

    def run(self, sizes: dict[str, int], names: Any = ()) -> dict[str, tuple[int, ...]]:
        n, h = sizes["n"], sizes["h"]
        return {"x": (n, h), "y": (n, (h + 1) // 2), "z": (n, (h + 3) // 4)}

    looked_at = run

    def runs(self, sizes: dict[str, int]) -> bool:
        return min(sizes.values()) > 0


def test_sizes_that_strides_divide_go_before_one_that_is_kept() -> None:
    trial: Any = Halved()
    example = {"n": 1, "h": 24}
    found = probe(trial, {"x": np.zeros((1, 24))})
    assert found.strides() == {"h": 4}
    tried = list(ways(trial, found, example))
    whole = next(way for way, _ in tried if way.dims[1].step > 1)
    assert whole.dims == (Dim("n"), Dim("h", 4, step=4)) and not whole.fixed
    assert all(sizes["h"] % 4 == 0 for sizes in whole.samples)
    forms = [form for way, form in tried if way is found]
    assert forms[:2] == [Form(), Form(keeps_ranges=True)] and forms[-1] == Form(True, True, True)
    kept = [i for i, (way, _) in enumerate(tried) if "h" in way.fixed]
    assert min(kept) > max(i for i, (way, _) in enumerate(tried) if way is whole)
    assert in_whole_steps(trial, found, {"n": 1, "h": 23}) is None


def test_what_is_left_out_is_told_with_the_way_out() -> None:
    found = Probe({}, (Dim("n"), Dim("h")), {"k": 3}, (), ())
    kept = found.without(["h"], {"n": 1, "h": 24})
    assert list(narrowed(found, kept, "it is so.")) == [
        "k is declared open, but only 3 was found to run.",
        "h stays 24: else it is so. For another one, export with --inputs of that size.",
    ]
    stepped = Probe({}, (Dim("n"), Dim("h", 4, step=4)), {}, (), ())
    told = "h takes multiples of 4 alone: else it is so. "
    out = "For another one, export with --inputs of that size."
    assert list(narrowed(Probe({}, found.dims, {}, (), ()), stepped, "it is so.")) == [told + out]


def test_padding_on_one_side_leaves_sizes_that_strides_divide(tmp_path: Path) -> None:
    """At odd sizes it has no effect, which is other code: height and width stayed as they were."""
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], strides=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y"], strides=[2, 2], pads=[0, 0, 1, 1]),
    ]
    held = {"v": drawn(4, 3, 3, 3), "w": drawn(5, 4, 3, 3)}
    shape = ("n", 3, "h", "w_")
    path = save(tmp_path / "m.onnx", nodes, {"x": [*shape]}, {"y": [None, 5, None, None]}, held)
    at = [(1, 48, 64), (2, 4, 4), (1, 64, 20), (3, 12, 132), (1, 8, 36)]
    sizes = [dict(zip(("n", "h", "w_"), each, strict=True)) for each in at]
    made = checked(path, tmp_path, sizes, feeds_of(shape))
    assert [d.step for d in made.plan.dims] == [1, 4, 4]
    assert made.notes[0].startswith("h takes multiples of 4 alone: else ")
