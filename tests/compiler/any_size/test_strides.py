"""What windows with strides make of maps and signals of open size, as one bundle's kernels."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper
from onnx_models import save
from test_counted import checked

from nnjit_studio.compiler.any_size.formulas.fit import Fit
from nnjit_studio.compiler.any_size.imported_sizes import sizes_to_import
from nnjit_studio.compiler.any_size.kernels.drawn import Drawing
from nnjit_studio.compiler.any_size.kernels.part import Part, bounded
from nnjit_studio.model.size import Dim, least, size

RNG = np.random.default_rng(5)
H = Dim("h", 29)


def drawn(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def feeds_of(shape: tuple[int | str, ...]) -> Any:
    def feeds(sizes: dict[str, int]) -> dict[str, np.ndarray]:
        whole = [sizes[n] if isinstance(n, str) else n for n in shape]
        return {"x": RNG.standard_normal(whole).astype(np.float32)}

    return feeds


def test_windows_that_samples_do_not_tell_apart_are_all_kept() -> None:
    """As SegFormer's three that reduce its maps to one size nearly everywhere."""
    samples = [{"h": h} for h in (29, 96, 64, 130)]
    rows = {n: tuple((s["h"] + n - 1) // n for s in samples) for n in (4, 8, 16)}
    reduced = tuple(s["h"] // 32 + (s["h"] == 29) for s in samples)
    assert reduced == tuple((s["h"] + 3) // 32 for s in samples)
    before = tuple(s["h"] for s in samples)
    slid = [(before, rows[n], n - 1, n, n) for n in rows]
    slid += [(rows[n], reduced, 0, 32 // n, 32 // n) for n in rows]
    fit = Fit([H], samples, slid)
    fit.learn([before, *rows.values(), reduced])
    h = size(H)
    assert fit.found[reduced] == [(h + 3) // 32, (h + 7) // 32, (h + 15) // 32]
    assert h + 3 not in fit.formulas and ((h + 3) // 4 - 1) * 4 + 4 in fit.seen
    at = sizes_to_import([H], fit.formulas, {"h": 96})
    told = [tuple(f.at(sizes) for sizes in at) for f in fit.formulas]
    assert len(set(told)) == len(told)


def test_signals_with_wide_strides_are_imported_at_lengths_that_tell_several_places() -> None:
    n = size(Dim("n", 512))
    places = (n - 352) // 160
    at = sizes_to_import([Dim("n", 512)], [n, places], {"n": 4000})
    assert len({places.at(sizes) for sizes in at}) > 2


def test_kernels_are_drawn_at_sizes_that_differ_in_all_extents() -> None:
    """Else what is cut of a product of two maps is taken for a number."""
    h, w, n = Dim("h"), Dim("w"), Dim("n")
    whole = ((size(h) + 15) // 16) * ((size(w) + 15) // 16)
    part = ((size(h) + 15) // 32) * ((size(w) + 15) // 32)
    drawing = Drawing((n, h, w), (size(n), whole, part))
    wanted = [(whole, 6, 1), (part, 4, 2)]
    sizes = [at for at, _ in zip(drawing.sizes(wanted), range(6), strict=False)]
    assert all(whole.at(at) % 6 == 1 and part.at(at) % 4 == 2 for at in sizes)
    assert len({part.at(at) for at in sizes}) > 2


def test_further_sizes_leave_every_remainder_of_a_vector() -> None:
    h = Dim("h")
    drawing = Drawing((Dim("n"), h), (size(Dim("n")), (size(h) + 3) // 4))
    left = {((at["h"] + 3) // 4) % 4 for at in drawing.further([])}
    assert left == {0, 1, 2, 3}


def test_kernels_are_drawn_at_several_extents_where_two_remainders_are_wanted() -> None:
    """As attention over reduced maps: of keys that are 33 or 45 any formula was taken."""
    n, h, w = Dim("n"), Dim("h", 29), Dim("w", 29)
    queries = ((size(h) + 15) // 16) * ((size(w) + 15) // 16)
    keys = ((size(h) + 15) // 32) * ((size(w) + 15) // 32)
    drawing = Drawing((n, h, w), (size(n) * 3, queries, keys))
    wanted = [(queries, 6, 5), (keys, 4, 1)]
    first = list(itertools.islice(drawing.sizes(wanted), 9))
    assert len({keys.at(at) for at in first}) > 6 and drawing.tells(first)
    assert len({keys.at(at) for at in drawing.further(wanted)}) > 6
    assert not drawing.tells([at for at in first if keys.at(at) in {keys.at(a) for a in first[:2]}])


def test_far_sizes_are_those_of_which_32_bits_hold_all_numbers() -> None:
    n, h, w = Dim("n"), Dim("h", 29), Dim("w", 29)
    queries = ((size(h) + 3) // 4) * ((size(w) + 3) // 4)
    keys = ((size(h) + 15) // 32) * ((size(w) + 15) // 32)
    scores = queries * keys
    drawing = Drawing((n, h, w), (queries, keys), holds=lambda at: scores.at(at) < 1 << 20)
    wanted = [(queries, 6, 5), (keys, 4, 1)]
    drawn = [*itertools.islice(drawing.sizes(wanted), 9), *drawing.further(wanted)]
    assert len(drawn) > 9 and all(scores.at(at) < 1 << 20 for at in drawn)


def test_a_loop_of_two_extents_is_told_by_these() -> None:
    h = Dim("h", 32, 64, 32)
    drawing = Drawing((h,), (size(h),))
    assert drawing.tells([{"h": 32}, {"h": 64}]) and not drawing.tells([{"h": 32}])


def test_turns_that_are_no_more_than_a_number_are_those_of_a_size_below_it() -> None:
    places = (size(Dim("h")) // 4) * (size(Dim("w")) // 4)
    part = Part("k", lambda at: None, [least(places, 100) * 3], [], [], ())  # type: ignore[arg-type, return-value]
    found = bounded(part)
    assert found is not None and found[1:] == (places, 100)
    assert found[0].extents == [places * 3]
    assert bounded(replace(part, extents=[places])) is None
    drawing = Drawing(
        (Dim("h"), Dim("w")), (places,), takes=lambda at: places.at(at) < 100, small=True
    )
    drawn = [places.at(at) for at in itertools.islice(drawing.sizes([]), 9)]
    assert len(set(drawn)) == 9 and all(n < 100 and n % 4 for n in drawn)


def test_two_convolutions_in_a_row_that_leave_places_over(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y"], strides=[2, 2]),
    ]
    held = {"v": drawn(4, 3, 3, 3), "w": drawn(5, 4, 3, 3)}
    shape = (1, 3, "h", "w")
    path = save(tmp_path / "m.onnx", nodes, {"x": list(shape)}, {"y": [1, 5, None, None]}, held)
    sizes = [(60, 80), (61, 83), (7, 9), (62, 81), (63, 95), (33, 64), (150, 11)]
    made = checked(path, tmp_path, [{"h": h, "w": w} for h, w in sizes], feeds_of(shape))
    assert made.notes == () and {d.name for d in made.plan.dims} == {"h", "w"}


def test_a_conformer_s_subsampling_takes_any_length(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["a"]),
        helper.make_node("Conv", ["a", "v"], ["b"], strides=[2, 2]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "w"], ["d"], strides=[2, 2]),
        helper.make_node("Transpose", ["d"], ["e"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["e", "rows"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    held = {
        "v": drawn(4, 1, 3, 3), "w": drawn(6, 4, 3, 3), "m": drawn(24, 8),
        "one": np.array([1]), "rows": np.array([0, 0, 24]),
    }  # fmt: skip
    shape = ("n", "t", 20)
    path = save(tmp_path / "m.onnx", nodes, {"x": list(shape)}, {"y": [None, None, 8]}, held)
    sizes = [(1, 60), (2, 61), (1, 7), (3, 62), (1, 63), (1, 97), (5, 200), (2, 8)]
    made = checked(path, tmp_path, [{"n": n, "t": t} for n, t in sizes], feeds_of(shape))
    assert made.notes == () and {d.name for d in made.plan.dims} == {"n", "t"}


def test_a_spectrogram_of_an_open_signal(tmp_path: Path) -> None:
    """Of few places at the lengths that an import would take else: windows of 512 every 160."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["a"]),
        helper.make_node("Conv", ["a", "re"], ["b"], strides=[160]),
        helper.make_node("Conv", ["a", "im"], ["c"], strides=[160]),
        helper.make_node("Mul", ["b", "b"], ["d"]),
        helper.make_node("Mul", ["c", "c"], ["e"]),
        helper.make_node("Add", ["d", "e"], ["f"]),
        helper.make_node("Transpose", ["f"], ["g"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["g", "mel"], ["y"]),
    ]
    held = {
        "re": drawn(9, 1, 512), "im": drawn(9, 1, 512), "mel": abs(drawn(9, 6)),
        "one": np.array([1]),
    }  # fmt: skip
    shape = ("n", "s")
    path = save(tmp_path / "m.onnx", nodes, {"x": list(shape)}, {"y": [None, None, 6]}, held)
    sizes = [(1, 4000), (2, 4100), (1, 16000), (3, 700), (1, 1279), (1, 1280), (2, 5001)]
    made = checked(path, tmp_path, [{"n": n, "s": s} for n, s in sizes], feeds_of(shape))
    assert made.notes == () and {d.name for d in made.plan.dims} == {"n", "s"}
