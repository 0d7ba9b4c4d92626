"""Convolutions over maps of any height and width, below the size of a tile too."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, helper
from onnx_models import save

from nnjit_studio.compiler.any_size.checked import Compiled
from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.kernels import small_maps
from nnjit_studio.compiler.any_size.kernels.small_maps import most_lost, open_extents, tile_of
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.importer.model import import_model
from nnjit_studio.compiler.ir.tensor_ir import Load
from nnjit_studio.compiler.recognize.convolution import Conv2d
from nnjit_studio.compiler.schedule.staging import Staging
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import prepared, subject_of
from nnjit_studio.model import GivenShapes
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.records import TIERS
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.size_tuning import KnownSettings

SIZES = [(1, 1), (1, 9), (2, 3), (3, 8), (5, 1), (4, 7), (7, 33), (18, 21), (33, 5), (40, 64)]


node, port = helper.make_node, helper.make_tensor_value_info


@pytest.mark.parametrize(("groups", "stride", "kernel"), [(1, 2, 3), (4, 1, 5)])
def test_a_convolution_takes_any_batch_height_and_width(
    tmp_path: Path, groups: int, stride: int, kernel: int
) -> None:
    rng = np.random.default_rng(0)
    taps = rng.standard_normal((8, 4 // groups, kernel, kernel)).astype(np.float32)
    taps = taps if groups == 1 else taps[:4]
    pads = [kernel // 2] * 4
    conv = node("Conv", ["x", "w"], ["y"], strides=[stride, stride], pads=pads, group=groups)
    plan = checked(tmp_path, [conv], {"w": taps}, np.ones((2, 4, 20, 30), np.float32), SIZES)
    assert {d.name: d.low for d in plan.dims} == {"n": 1, "h": 1, "w": 1}


@pytest.mark.parametrize(
    ("groups", "tile"),
    [
        (1, Candidate(12, 2, 3, 5, 2, 36, "nm", False)),
        (4, Candidate(4, 2, 3, 1, 2, 9, "mn", False)),
    ],
)
def test_a_tile_that_won_at_one_size_is_right_at_any(
    tmp_path: Path, groups: int, tile: Candidate
) -> None:
    rng = np.random.default_rng(0)
    taps = rng.standard_normal((8 if groups == 1 else 4, 4 // groups, 3, 3)).astype(np.float32)
    conv = node("Conv", ["x", "w"], ["y"], pads=[1] * 4, group=groups)
    plan = checked(tmp_path, [conv], {"w": taps}, np.ones((2, 4, 20, 30), np.float32), SIZES, tile)
    (kernel,) = plan.kernels.values()
    wide = [fits for fits, _ in kernel.selectors if {d.name for d in fits.dims} == {"w"}]
    turned = [next(w for w in range(1, 99) if fits.at({"w": w})) for fits in wide]
    assert turned == [tile.x0]


def test_rows_that_end_a_stride_before_a_vector_are_copied_one_by_one(tmp_path: Path) -> None:
    """Of 7 columns a tile of 4 has 3 of one phase and one of padding."""
    taps = np.random.default_rng(0).standard_normal((13, 2, 3, 3)).astype(np.float32)
    conv = node("Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[1] * 4)
    maps = [(9, 6), (9, 7), (9, 8), (8, 9), (9, 10), (7, 7), (3, 15)]
    plan = checked(tmp_path, [conv], {"w": taps}, np.ones((1, 2, 20, 30), np.float32), maps)
    assert {d.name: d.low for d in plan.dims} == {"n": 1, "h": 1, "w": 1}


def test_a_bundle_is_checked_where_its_kernels_first_have_whole_tiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a map is neither the smallest nor near that at hand."""
    monkeypatch.setattr(small_maps, "most_lost", lambda convolutions: 0)
    taps = np.random.default_rng(0).standard_normal((13, 2, 3, 3)).astype(np.float32)
    conv = node("Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[1] * 4)
    inputs, outputs = {"x": ["n", 2, "h", "w"]}, {"y": [None] * 4}
    path = save(tmp_path / "m.onnx", [conv], inputs, outputs, {"w": taps})
    made = import_any(path, tmp_path / "w.bin", {"x": np.ones((1, 2, 20, 30), np.float32)})
    assert made is not None and "at n=1, h=20, w=7." in " ".join(made.notes)
    assert {d.name: d.step for d in made.plan.dims} == {"n": 1, "h": 2, "w": 2}


def test_a_bundle_is_checked_with_each_size_alone_at_its_smallest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps of one row are not all as narrow as they are low."""
    looked_at: list[tuple[int, int]] = []
    monkeypatch.setattr(
        Compiled, "check", lambda model, at, *_: looked_at.extend((s["h"], s["w"]) for s in at)
    )
    taps = {"w": np.ones((2, 2, 3, 3), np.float32)}
    conv = node("Conv", ["x", "w"], ["y"], strides=[2, 2])
    path = save(tmp_path / "m.onnx", [conv], {"x": [1, 2, "h", "w"]}, {"y": [None] * 4}, taps)
    made = import_any(path, tmp_path / "w.bin", {"x": np.ones((1, 2, 20, 30), np.float32)})
    assert made is not None and {(3, 3), (3, 30), (20, 3)} <= set(looked_at)


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 7])
def test_no_row_of_a_stage_has_fewer_columns_of_a_map_than_is_told(
    kernel: int, stride: int
) -> None:
    for left, right in itertools.product(range(kernel), repeat=2):
        made = {}
        for width in range(max(1, kernel - left - right), 99):
            out = (width + left + right - kernel) // stride + 1
            made[width] = Conv2d(
                "x", "w", "s", 1, 1, 2, 8, 9, width, 9, out, (1, kernel), (1, stride), (1, 1),
                (0, left), (), (),
            )  # fmt: skip
        few = [made[width] for width in (40, 44, 48, 52, 60, 64)]  # which may be all there are
        lost = most_lost(few)
        for conv in made.values():
            spans = [
                high - low
                for _, low, high, store in Staging(conv, False)._spans()
                if isinstance(store.value, Load)
            ]
            assert min(spans) >= conv.out_width - lost
        assert most_lost(list(made.values())) <= lost


@pytest.mark.parametrize(("groups", "kernel"), [(1, 3), (8, 5)])
def test_a_convolution_takes_maps_that_are_always_even(
    tmp_path: Path, groups: int, kernel: int
) -> None:
    """An even width and the same width padded never both leave a remainder."""
    rng = np.random.default_rng(0)
    weights = {
        "half": rng.standard_normal((8, 2, 3, 3)).astype(np.float32),
        "taps": rng.standard_normal((8, 8 // groups, kernel, kernel)).astype(np.float32),
        "twice": np.array([1, 1, 2, 2], np.float32),
    }
    nodes = [
        node("Conv", ["x", "half"], ["a"], strides=[2, 2], pads=[1] * 4),
        node("Conv", ["a", "taps"], ["b"], pads=[kernel // 2] * 4, group=groups),
        node("GlobalAveragePool", ["b"], ["m"]),
        node("Sub", ["b", "m"], ["c"]),
        node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["d", "", "twice"], ["e"], mode="nearest"),
        node("Add", ["c", "e"], ["y"]),
    ]
    maps = [(4, 8), (8, 4), (12, 28), (32, 64), (60, 36), (68, 132)]
    plan = checked(tmp_path, nodes, weights, np.ones((2, 2, 64, 32), np.float32), maps)
    assert {d.name: d.step for d in plan.dims} == {"n": 1, "h": 4, "w": 4}


def test_strided_windows_over_a_strided_map_take_maps_of_any_remainder(tmp_path: Path) -> None:
    """As a ResNet begins: at even sizes the padded map or its inside leaves no remainder."""
    taps = np.random.default_rng(0).standard_normal((2, 2, 3, 3)).astype(np.float32)
    nodes = [
        node("Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[1] * 4),
        node("MaxPool", ["a"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
    ]
    maps = [(1, 1), (64, 64), (65, 66), (66, 67), (67, 68), (68, 65), (90, 87)]
    checked(tmp_path, nodes, {"w": taps}, np.ones((1, 2, 64, 64), np.float32), maps)


def checked(
    folder: Path,
    nodes: list[NodeProto],
    weights: dict[str, np.ndarray],
    example: np.ndarray,
    maps: list[tuple[int, int]],
    tuned: Candidate | None = None,
) -> OpenPlan:
    """The plan of a model of one image, without notes, and right on these maps in both tiers.

    ``tuned`` is what won for its one kernel at the sizes of the example.
    """
    channels = example.shape[1]
    path = save(
        folder / "m.onnx", nodes, {"x": ["n", channels, "h", "w"]}, {"y": [None] * 4}, weights
    )
    winners, notes = {}, ()
    if tuned is not None:
        given = GivenShapes(shapes={"x": example.shape})
        (workload,) = import_model(path, folder / "one.bin", given=given).workloads
        winners = {workload.key: tuned}
        notes = ("1 of 1 kernels have settings that were tuned at one size.",)
    made = import_any(path, folder / "w.bin", {"x": example}, known=KnownSettings(winners))
    assert made is not None and made.notes == notes
    session, rng = onnxruntime.InferenceSession(path), np.random.default_rng(1)
    for tier in TIERS:
        runner = OpenRunner(made.plan, made.kernels, folder / "w.bin", tier)
        for i, (h, w) in enumerate(maps):
            x = rng.standard_normal((1 + i % 3, channels, h, w)).astype(np.float32)
            (expected,) = session.run(None, {"x": x})
            got = runner.run({"n": len(x), "h": h, "w": w}, {"x": x})["y"]
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4, err_msg=f"{h} {w}")
    return made.plan


def test_a_row_of_open_width_has_one_tile() -> None:
    """Its blocks would be others at each size; of a known width they stay."""
    rows = [made(f"conv2d:1x4x1x{width}x6x1x3x1x0x1x1:f32") for width in (100, 400, 1000)]
    assert len({tile_of(row, open_extents(rows)) for row in rows}) == 1
    assert tile_of(rows[-1], {}).x1 == 128


def made(spec: str) -> Conv2d:
    subject = subject_of(prepared(program_for(spec)))
    assert isinstance(subject, Conv2d)
    return subject
