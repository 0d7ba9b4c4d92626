"""Spectra of signals of any length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser
from onnx_models import save
from test_counted import checked

from nnjit_studio.compiler.any_size.arrays import made_arrays
from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.inputs import lengths_of
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.size import LARGEST

RNG = np.random.default_rng(7)


def test_frames_of_a_spectrum_follow_any_number_of_samples(tmp_path: Path) -> None:
    """Behind a padding that is more than what shapes usually add."""
    weights = {
        "around": np.array([0, 100, 0, 100]),
        "step": np.array(40),
        "window": np.hanning(96).astype(np.float32),
        "bands": RNG.random((49, 6)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Pad", ["x", "around"], ["padded"], mode="reflect"),
        helper.make_node("STFT", ["padded", "step", "window"], ["spectrum"]),
        helper.make_node("ReduceSumSquare", ["spectrum"], ["power"], axes=[-1], keepdims=0),
        helper.make_node("MatMul", ["power", "bands"], ["y"]),
    ]
    held = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["b", "n"]}, {"y": ["b", None, 6]}, held)

    def feeds(sizes: dict[str, int]) -> dict[str, np.ndarray]:
        return {"x": RNG.standard_normal((sizes["b"], sizes["n"])).astype(np.float32)}

    sizes = [{"b": 1, "n": 101}, {"b": 2, "n": 160}, {"b": 3, "n": 999}, {"b": 1, "n": 4001}]
    made = checked(path, tmp_path, [{"b": 1, "n": 700}, *sizes], feeds)
    assert made.notes == ()
    assert {d.name: (d.low, d.step) for d in made.plan.dims} == {"b": (1, 1), "n": (101, 1)}


def written(folder: Path, text: str) -> Path:
    path = folder / "m.onnx"
    whole = f"<ir_version: 9, opset_import: ['' : 17]>\n{text}".replace("'", '"')
    path.write_bytes(parser.parse_model(whole).SerializeToString())
    return path


MASKED = """
g (float[b, n] x, int64[b] lens) => (float[b, m] y, int64[b] counts)
<int64 step = {10}, int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] behind = {1},
 int64[4] around = {0, 20, 0, 20}, float none = {0}> {
    size = Shape<start = 1, end = 2>(x)
    end = Squeeze(size)
    places = Range(zero, end, one)
    row = Unsqueeze(places, first)
    column = Unsqueeze(lens, behind)
    whole = Less(row, column)
    filled = Where(whole, x, none)
    last = Sub(column, behind)
    final = GatherElements<axis = 1>(x, last)
    centred = Sub(filled, final)
    padded = Pad(centred, around)
    window = Constant<value_floats = [WINDOW]>()
    spectrum = STFT(padded, step, window)
    power = ReduceSumSquare<axes = [2, 3], keepdims = 0>(spectrum)
    counts = Div(lens, step)
    frames = Shape<start = 1, end = 2>(power)
    count = Squeeze(frames)
    numbers = Range(zero, count, one)
    line = Unsqueeze(numbers, first)
    most = Unsqueeze(counts, behind)
    held = Less(line, most)
    y = Where(held, power, none)
}
"""


def test_a_bundle_without_arrays_takes_any_number_of_samples_and_any_length(tmp_path: Path) -> None:
    """As preprocessors of speech have them: made-up lengths grow with the samples, since a place
    behind the last one is refused, and masks are no tables that end."""
    window = ", ".join(f"{n:.6f}" for n in np.hanning(32))
    path = written(tmp_path, MASKED.replace("WINDOW", window))
    feeds = made_arrays(path)
    assert feeds["x"].shape == (1, 64) and feeds["lens"] == [64]
    made = import_any(path, tmp_path / "w.bin")
    assert made is not None and made.notes == ()
    dims = {d.name: (d.low, d.high, d.step) for d in made.plan.dims}
    assert dims == {"b": (1, LARGEST, 1), "n": (1, LARGEST, 1)}
    # A longer one is refused, since ONNX Runtime refuses it.
    most = {port.spec.name: port.most for port in made.plan.at({"b": 2, "n": 333}).inputs}
    assert most == {"x": None, "lens": 333}
    assert OpenPlan.from_json(made.plan.to_json()) == made.plan
    runner = OpenRunner(made.plan, made.kernels, tmp_path / "w.bin", "simd128")
    for b, n in ((1, 1), (1, 40), (2, 333), (3, 2600)):
        given = {"x": RNG.standard_normal((b, n)).astype(np.float32)}
        given["lens"] = RNG.integers(max(1, n // 2), n + 1, b)
        got = runner.run({"b": b, "n": n}, given)
        for name, value in zip(got, native_session(path).run(list(got), given), strict=True):
            np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_length_grows_with_what_it_is_counted_along(tmp_path: Path) -> None:
    inputs = {"x": ("b", "n"), "lens": ("b",), "ids": ("b",), "rate": ()}
    x = np.zeros((2, 100), np.float32)
    feeds = {"x": x, "lens": np.array([60, 100]), "ids": np.array([3, 1]), "rate": np.array(99)}
    assert lengths_of(inputs, feeds) == {"lens": ("x", 1)}
    text = """
    g (float[b, n] x, int64[b] lens, int64[b] voice) => (float[b, n] y)
    <float[200] table> {
        last = Constant<value_ints = [1]>()
        column = Unsqueeze(lens, last)
        count = Cast<to = 1>(column)
        part = Div(x, count)
        rows = Unsqueeze(voice, last)
        own = Gather(table, rows)
        y = Add(part, own)
    }
    """
    path = written(
        tmp_path,
        text.replace("float[200] table", f"float[200] table = {{{', '.join(['1'] * 200)}}}"),
    )
    trial = Trial(path, {"x": x, "lens": np.array([60, 100]), "voice": np.array([60, 100])})
    given, _ = trial.values({"b": 2, "n": 250})
    assert given["lens"].tolist() == [150, 250] and given["voice"].tolist() == [60, 100]
    shares = [each["lens"].tolist() for each, _ in trial.cases({"b": 2, "n": 10})]
    assert shares == [[6, 10], [4, 7]]


@pytest.mark.parametrize(("taps", "by", "pads"), [(23, 3, [10, 13]), (230, 200, [9, 213])])
def test_a_wide_window_over_a_padded_signal_takes_any_length(
    taps: int, by: int, pads: list[int], tmp_path: Path
) -> None:
    """As resamplers have them, whose weights nodes compute; the padding ends loops in another way
    at each rest of a stride."""
    held = [numpy_helper.from_array(RNG.random((2, 1, taps)).astype(np.float32), "half")]
    double = helper.make_node("Add", ["half", "half"], ["v"])
    node = helper.make_node("Conv", ["x", "v"], ["y"], strides=[by], pads=pads)
    ports = {"x": ["b", 1, "n"]}, {"y": ["b", 2, None]}
    path = save(tmp_path / "m.onnx", [double, node], *ports, held)

    def feeds(sizes: dict[str, int]) -> dict[str, np.ndarray]:
        return {"x": RNG.standard_normal((sizes["b"], 1, sizes["n"])).astype(np.float32)}

    assert [p.stride for s in Trial(path, feeds({"b": 1, "n": 64})).slides for p in s.places] == [
        by
    ]
    sizes = [{"b": 1, "n": n} for n in (1800, 500, 744, 799, 800, 5001)]
    made = checked(path, tmp_path, [*sizes, {"b": 3, "n": 777}], feeds)
    assert made.notes == () and {d.name for d in made.plan.dims} == {"b", "n"}


def test_rows_that_a_graph_cuts_of_a_signal_have_a_formula(tmp_path: Path) -> None:
    """Sizes that are divided by a number of the file, and a window whose weights are computed."""
    text = """
    g (float[1, n] x) => (float[m, k] y)
    <int64[1] hop = {100}, int64[1] less = {99}, int64[1] none = {0}, int64[1] two = {2},
     int64[2] rows = {-1, 100}, int64[3] three = {0, 0, 1}, int64[1] final = {-1}> {
        n = Shape<start = 1, end = 2>(x)
        more = Add(n, less)
        count = Div(more, hop)
        whole = Mul(count, hop)
        rest = Sub(whole, n)
        pads = Concat<axis = 0>(three, rest)
        padded = Pad(x, pads)
        lines = Reshape(padded, rows)
        y = Relu(lines)
    }
    """
    path = written(tmp_path, text)

    def feeds(sizes: dict[str, int]) -> dict[str, np.ndarray]:
        return {"x": RNG.standard_normal((1, sizes["n"])).astype(np.float32)}

    made = checked(path, tmp_path, [{"n": n} for n in (850, 200, 399, 400, 401, 3333)], feeds)
    assert made.notes == ()


SCANNED = """
g (float[b, n] x) => (float[b, m, 25] y)
<int64 wide = {25}, int64 step = {10}, int64[1] first = {0}, int64[1] kept = {15},
 int64[1] axis = {1}, int64[3] parts = {0, -1, 10}> {
    size = Shape<start = 1, end = 2>(x)
    count = Squeeze(size)
    behind = Sub(count, wide)
    rest = Mod(behind, step)
    whole = Sub(count, rest)
    end = Unsqueeze(whole, first)
    begin = Slice(x, first, kept, axis, axis)
    line = Slice(x, kept, end, axis, axis)
    cut = Reshape(line, parts)
    last, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1], body =
        frames (float[b, 15] before, float[b, 10] new) => (float[b, 15] next, float[b, 25] frame)
        <int64[1] ten = {10}, int64[1] all = {9223372036854775807}, int64[1] along = {1}> {
            frame = Concat<axis = -1>(before, new)
            next = Slice(frame, ten, all, along, along)
        }>(begin, cut)
}
"""


def test_frames_that_a_scan_cuts_take_any_number_of_samples(tmp_path: Path) -> None:
    """Of the number of samples a graph takes what a division leaves."""
    path = written(tmp_path, SCANNED)
    divisions = Trial(path, {"x": np.zeros((1, 99), np.float32)}).slides
    assert next(p.stride for s in divisions for p in s.places) == 10

    def feeds(sizes: dict[str, int]) -> dict[str, np.ndarray]:
        return {"x": RNG.standard_normal((sizes["b"], sizes["n"])).astype(np.float32)}

    sizes = [{"b": b, "n": n} for b, n in ((1, 200), (1, 25), (2, 34), (3, 35), (1, 1999))]
    made = checked(path, tmp_path, sizes, feeds)
    assert made.notes == () and {d.name: d.low for d in made.plan.dims} == {"b": 1, "n": 25}


PADDED = """
g (float[b, n] x) => (float[b, 520] y)
<int64[1] whole = {480}, int64[4] behind = {0, 0, 0, 1}, int64[4] around = {0, 20, 0, 20}> {
    size = Shape<start = 1, end = 2>(x)
    more = Sub(whole, size)
    pads = Mul(more, behind)
    padded = Pad(x, pads)
    mirrored = Pad<mode = "reflect">(padded, around)
    y = Relu(mirrored)
}
"""


def test_a_signal_that_is_padded_to_a_number_of_samples_is_open_up_to_it(tmp_path: Path) -> None:
    """As Whisper's is: in front of the padding vectors leave up to three samples, and a kernel's
    code for three of them is none for one."""

    def feeds(sizes: dict[str, int]) -> dict[str, np.ndarray]:
        return {"x": RNG.random((sizes["b"], sizes["n"])).astype(np.float32) + 1}

    path = written(tmp_path, PADDED.replace('"', "'"))
    sizes = [{"b": b, "n": n} for b in (1, 3) for n in (128, 1, 2, 3, 7, 477, 478, 479, 480)]
    made = checked(path, tmp_path, sizes, feeds)
    assert {d.name: (d.low, d.high) for d in made.plan.dims} == {"b": (1, LARGEST), "n": (1, 480)}
    assert made.notes == ("n is 480 or less in the bundle: a loop of its kernels ends there.",)
