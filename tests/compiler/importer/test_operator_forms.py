"""Forms of ONNX operators that the converters of the importer take wrongly or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_models
import pytest
from onnx import TensorProto, helper, save
from operator_cases import Case, case, draw, i64, model_of
from operator_table import RUNS, status

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import ModelError


def resizes() -> Iterator[Case]:
    image, none = draw("f32", 1, 2, 5, 7), np.zeros(0, np.float32)
    for mode in ("nearest", "linear", "cubic"):
        for how in ("half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"):
            scales = np.array([1, 1, 0.75, 1.25], np.float32)
            yield case(
                "Resize", "f32", image, none, scales, weights=(1, 2), opset=19,
                variant=f"{mode} {how}", mode=mode, coordinate_transformation_mode=how,
            )  # fmt: skip
        if mode != "nearest":
            yield case(
                "Resize", "f32", image, none, none, i64(1, 2, 2, 3), weights=(1, 2, 3), opset=19,
                variant=f"{mode} antialias", mode=mode, antialias=1,
            )  # fmt: skip
    # A place that ONNX Runtime's division in float32 puts next to a whole one, or next to a half.
    for n, out, how, near in (
        (21, 48, "asymmetric", "floor"),
        (57, 28, "asymmetric", "round_prefer_floor"),
        (24, 28, "half_pixel", "round_prefer_floor"),
        (58, 29, "align_corners", "round_prefer_floor"),
        (9, 1, "align_corners", "floor"),
    ):
        yield case(
            "Resize", "f32", draw("f32", 1, 1, n, 2), none, none, i64(1, 1, out, 2),
            weights=(1, 2, 3), variant=f"{n} to {out} {how} {near}", mode="nearest",
            coordinate_transformation_mode=how, nearest_mode=near,
        )  # fmt: skip
    scales = np.array([1, 1, 0.8, 0.6], np.float32)
    yield case(
        "Resize", "f32", image, none, scales, weights=(1, 2), variant="exclude outside",
        mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5,
    )  # fmt: skip
    for policy in ("not_larger", "not_smaller"):
        yield case(
            "Resize", "f32", image, none, none, i64(7, 8), weights=(1, 2, 3), opset=19,
            variant=policy, axes=[2, 3], keep_aspect_ratio_policy=policy,
        )  # fmt: skip
    last = draw("f32", 1, 4, 5, 3)
    scales = np.array([1, 2, 2, 1], np.float32)
    yield case("Resize", "f32", last, none, scales, weights=(1, 2), variant="channels last")
    for mode in ("nearest", "linear"):
        scales = np.array([1, 1, 2, 1.5], np.float32)
        yield case("Resize", "f32", image, scales, weights=(1,), opset=10, variant=mode, mode=mode)
        yield case("Upsample", "f32", image, scales, weights=(1,), opset=9, variant=mode, mode=mode)
    sizes = i64(1, 2, 10, 21)
    yield case(
        "Resize", "f32", image, none, none, sizes, weights=(1, 2, 3), opset=11,
        variant="empty scales", mode="linear",
    )  # fmt: skip
    held = [1.0, 1.0, 2.0, 3.0]
    yield case("Upsample", "f32", image, opset=8, variant="attribute", scales=held)


def powers() -> Iterator[Case]:
    """Of integers by exponents that are computed."""
    for dtype in ("i64", "i32"):
        kind = np.dtype("int64" if dtype == "i64" else "int32")
        bases = np.array([0, 1, -1, -1, 2, -3, 7, -1, 3, 1], kind)
        exponents = np.array([0, 64, 65, 70, 30, 5, 3, -3, -1, -2])
        yield case("Pow", dtype, bases, exponents, variant="computed")


def slices() -> Iterator[Case]:
    """Their limits are attributes before opset 10; the largest number is the end."""
    x = draw("f32", 3, 4)
    for axes in ({"axes": [-1, 0]}, {}):
        yield case(
            "Slice", "f32", x, opset=9, variant=str(axes), starts=[0, -3],
            ends=[2, 2**63 - 1], **axes,
        )  # fmt: skip
    for start, end in ((3, 1), (-1, -3)):
        nodes = [
            helper.make_node("Slice", ["x"], ["none"], axes=[1], starts=[start], ends=[end]),
            helper.make_node("Concat", ["x", "none"], ["y"], axis=1),
        ]
        model = model_of(nodes, {"x": x}, {}, ["y"], 9)
        yield Case("Slice", "f32", f"{start} {end}", model, {"x": x})


def transposed() -> Iterator[Case]:
    x, w = draw("f32", 1, 2, 3, 4), draw("f32", 2, 3, 3, 3, seed=1)
    for auto in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        for size in ([10, 8], [8, 7], [5, 7]):
            yield case(
                "ConvTranspose", "f32", x, w, weights=(1,), variant=f"{auto} {size}",
                auto_pad=auto, output_shape=size, strides=[3, 2], kernel_shape=[3, 3],
            )  # fmt: skip
    grouped = draw("f32", 2, 2, 3, 3, seed=1)
    yield case(
        "ConvTranspose", "f32", x, grouped, weights=(1,), variant="grouped", group=2,
        output_shape=[5, 7], strides=[2, 2],
    )  # fmt: skip


def statistics() -> Iterator[Case]:
    x = draw("f32", 3, 4, 5)
    for axis in (-1, 1):
        shape = x.shape[axis:]
        given = (x, draw("f32", *shape, seed=1), draw("f32", *shape, seed=2))
        yield case(
            "LayerNormalization", "f32", *given, weights=(1, 2), outputs=3, axis=axis,
            variant=f"axis {axis}",
        )  # fmt: skip
    parts = [draw("f32", 4, low=0.1, seed=s) for s in range(4)]
    yield case("BatchNormalization", "f32", x, *parts, outputs=3, training_mode=1)
    yield case("Dropout", "f32", np.array([[1, np.nan, np.inf]], np.float32), outputs=2)
    rows = np.array([[1, 2, 2], [0, 0, 0]], np.float32)
    for p in (1, 2):
        yield case("LpNormalization", "f32", rows, p=p, variant=f"zeros {p}")


def functions() -> Iterator[Case]:
    """Operators that ONNX defines by others."""
    q, k, v = (draw("f32", 2, 4, n, 8, seed=n) for n in (3, 5, 5))
    shared = draw("f32", 2, 2, 5, 8), draw("f32", 2, 2, 5, 6)
    none = np.array([[True, False, True, True, True], [False] * 5, [True] * 5])
    given = {"opset": 23}
    yield case("Attention", "f32", q, k, v, **given)
    yield case("Attention", "f32", q, k, v, variant="causal", is_causal=1, **given)
    yield case("Attention", "f32", q, *shared, variant="grouped", scale=0.3, softcap=2.0, **given)
    yield case("Attention", "f32", q, k, v, none, variant="a row hidden", opset=24)
    past = draw("f32", 2, 4, 6, 8), draw("f32", 2, 4, 6, 8, seed=9)
    yield case("Attention", "f32", q, k, v, None, *past, outputs=3, variant="past", **given)
    packed = [draw("f32", 2, n, 32, seed=n) for n in (3, 5, 5)]
    heads = {"q_num_heads": 4, "kv_num_heads": 4}
    yield case("Attention", "f32", *packed, variant="packed", **heads, **given)
    for axis in (0, -1):
        x = draw("f32", 3, 4)
        scale = draw("f32", *x.shape[axis:], seed=1)
        yield case(
            "RMSNormalization", "f32", x, scale, weights=(1,), variant=f"axis {axis}", axis=axis,
            **given,
        )  # fmt: skip
    crop = i64(4, 6)
    yield case("CenterCropPad", "f32", draw("f32", 5, 3), crop, weights=(1,), opset=18)
    yield case("Swish", "f32", draw("f32", 5, 3), opset=24)
    labels = np.array([0, 2, 1, 1])
    yield case("SoftmaxCrossEntropyLoss", "f32", draw("f32", 4, 3), labels, outputs=2)


def empty_parts() -> Iterator[Case]:
    """A rotation of whole heads cuts them so."""
    x = draw("f32", 2, 6)
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["some", "none"], axis=1),
        helper.make_node("Slice", ["x", "six", "seven", "one"], ["nothing"]),
        helper.make_node("Neg", ["some"], ["turned"]),
        helper.make_node("Concat", ["turned", "none", "nothing"], ["y"], axis=1),
    ]
    held = {"sizes": i64(6, 0), "six": i64(6), "seven": i64(7), "one": i64(1)}
    yield Case("Concat", "f32", "empty", model_of(nodes, {"x": x}, held, ["y"], 17), {"x": x})


def infinities() -> Iterator[Case]:
    """Rows without a finite number, one with."""
    x = np.full((3, 5), -np.inf, np.float32)
    x[1, 2] = 4
    for op, given in (("ReduceMax", x), ("ReduceMin", -x)):
        yield case(op, "f32", given, axes=[1], opset=13, variant="infinite")
    for op, given in (("ArgMax", x), ("ArgMin", -x)):
        for last in (0, 1):
            yield case(op, "f32", given, axis=1, select_last_index=last, variant=f"infinite {last}")
    least = np.full((2, 3), np.iinfo(np.int32).min, np.int32)
    yield case("ArgMax", "i32", least, axis=1, variant="smallest")
    image = np.tile(x, (1, 1, 2, 1))
    yield case("MaxPool", "f32", image, kernel_shape=[2, 2], variant="infinite")
    x[2] = np.inf
    for kept in (0, 1):
        yield case("ReduceLogSumExp", "f32", x, axes=[1], keepdims=kept, variant=f"infinite {kept}")
    yield case("ReduceLogSumExp", "f32", x, i64(1), weights=(1,), opset=18, variant="infinite axes")
    mask = np.array([[[0, -np.inf]], [[-np.inf, -np.inf]]], np.float32)
    yield case("Max", "f32", mask, mask, variant="infinite")


def moved() -> Iterator[Case]:
    x = draw("f32", 4, 3, 5)
    for time, batch in ((0, 1), (2, 0)):
        lengths = np.array([3, 1, 4, 2][: x.shape[batch]])
        yield case(
            "ReverseSequence", "f32", x, lengths, time_axis=time, batch_axis=batch,
            variant=f"along {time}",
        )  # fmt: skip
    cache, new = draw("f32", 2, 3, 6, 4), draw("f32", 2, 3, 2, 4, seed=1)
    for mode, places in (("linear", i64(4, 0)), ("circular", i64(5, 2))):
        given = (cache, new, places)
        yield case("TensorScatter", "f32", *given, opset=24, mode=mode, variant=mode)
    yield case("TensorScatter", "f32", cache, new, opset=24, variant="at the start")
    image = draw("f32", 2, 3, 4, 6)
    yield case("SpaceToDepth", "f32", image, blocksize=2, mode="CRD", opset=28, variant="CRD")
    ones = helper.make_node("EyeLike", ["x"], ["y"], "node", dtype=TensorProto.FLOAT, k=1)
    feeds = {"x": draw("i32", 3, 5)}
    yield Case("EyeLike", "i32", "dtype", model_of([ones], feeds, {}, ["y"], 17), feeds)
    for op in ("ReduceMax", "ReduceMin"):
        yield case(op, "bool", draw("bool", 3, 4), i64(1), weights=(1,), opset=20)
    ends = np.array([np.inf, -np.inf, np.inf, 2, -2, 2], np.float32)
    rests = np.array([3, 3, -3, np.inf, 5.5, -5.5], np.float32)
    yield case("Mod", "f32", rests, ends, fmod=1, variant="infinite")
    yield case("Mod", "f32", rests, ends, opset=28, variant="infinite")


def windows() -> Iterator[Case]:
    for name, how in (
        ("plain", {}),
        ("steps", {"strides": [2, 1], "pads": [1, 0, 1, 2]}),
        ("dilated", {"dilations": [1, 2], "strides": [2, 2]}),
    ):
        strides, dilations = how.get("strides", [1, 1]), how.get("dilations", [1, 1])
        pads, block = how.get("pads", [0] * 4), (2, 3)
        count = [
            (n + pads[d] + pads[d + 2] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
            for d, n in enumerate((5, 8))
        ]
        x = draw("f32", 2, 3 * 6, count[0] * count[1])
        given = (x, i64(5, 8), i64(*block))
        yield case("Col2Im", "f32", *given, weights=(1, 2), opset=18, variant=name, **how)
    image, held = draw("f32", 2, 4, 5, 9), draw("f32", 6, 2, 3, 2, seed=1)
    # In steps that no way of counting pixels rounds.
    offset = np.round(draw("f32", 2, 2 * 2 * 6, 2, 10) * 64) / 64
    mask = draw("f32", 2, 2 * 6, 2, 10, low=0, seed=2)
    yield case(
        "DeformConv", "f32", image, held, offset, draw("f32", 6), mask, weights=(1, 3), opset=19,
        group=2, offset_group=2, strides=[2, 1], pads=[1, 1, 0, 1], kernel_shape=[3, 2],
    )  # fmt: skip
    signal = draw("f32", 2, 40, 1, low=-1, high=1)
    step, length = np.array(7), np.array(16)
    window = draw("f32", 16, low=0, seed=3)
    yield case("STFT", "f32", signal, step, window, weights=(1, 2))
    yield case(
        "STFT", "f32", signal, step, window, length, weights=(1, 2, 3), variant="whole", onesided=0
    )
    yield case("STFT", "f32", signal, step, None, length, weights=(1, 2), variant="no window")
    half = draw("f32", 2, 5, 2)
    half[:, (0, 4), 1] = 0
    for size in (8, 9):
        given = half[:, :, :], np.array(size), np.array(1)
        yield case(
            "DFT", "f32", *given, weights=(1, 2), opset=20, inverse=1, onesided=1,
            variant=f"real {size}",
        )  # fmt: skip


def determinants() -> Iterator[Case]:
    for size in (1, 2, 5):
        yield case("Det", "f32", draw("f32", 2, size, size, low=-1), variant=f"{size}")


def largest_samples() -> Iterator[Case]:
    """Of boxes that reach beyond the image on all sides, and of one without a height."""
    image, which = draw("f32", 2, 3, 6, 8, low=-1), i64(0, 1, 1)
    boxes = np.array([[1, 1, 6, 4], [-4, -3, 9, 8], [2, 5, 7, 5]], np.float32)
    for opset, held in ((10, {}), (16, {"coordinate_transformation_mode": "half_pixel"})):
        yield case(
            "RoiAlign", "f32", image, boxes, which, opset=opset, variant=f"largest {opset}",
            mode="max", output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.75,
            **held,
        )  # fmt: skip


def batch_first() -> Iterator[Case]:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}
    x, start = draw("f32", 2, 3, 5), draw("f32", 2, 2, 4, seed=4)
    for op, count in gates.items():
        w, u = draw("f32", 2, 4 * count, 5, seed=1), draw("f32", 2, 4 * count, 4, seed=2)
        state = [start] * (2 if op == "LSTM" else 1)
        yield case(
            op, "f32", x, w, u, None, None, *state, weights=(1, 2), variant="batch first",
            outputs=2, layout=1, hidden_size=4, direction="bidirectional",
        )  # fmt: skip


def wide_quantised() -> Iterator[Case]:
    """In 16 bits, and constants in 4 bits or in blocks."""
    x = draw("f32", 3, 4, low=-9, high=9)
    for kind in (np.int16, np.uint16):
        zero = np.array(7, kind)
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "node"),
            helper.make_node("Transpose", ["q"], ["t"]),
            helper.make_node("DequantizeLinear", ["t", "scale", "zero"], ["y"]),
        ]
        held = {"scale": np.array(2e-4, np.float32), "zero": zero}
        model = model_of(nodes, {"x": x}, held, ["y"], 21)
        yield Case("QuantizeLinear", "f32", kind.__name__, model, {"x": x})
    codes = draw("u8", 6, 4, high=15)
    for block in (0, 3):
        scale = draw("f32", 2 if block else 6, 4, low=0.1) if block else draw("f32", 6, low=0.1)
        zeros = draw("u8", *scale.shape, high=15, seed=1)
        for kind in (TensorProto.UINT4, TensorProto.INT4, TensorProto.UINT8):
            shift = 8 if kind == TensorProto.INT4 else 0
            tensors = [
                helper.make_tensor(
                    name, kind, a.shape, (a.astype(np.int8) - shift).ravel().tolist()
                )
                for name, a in (("q", codes), ("zero", zeros))
            ]
            nodes = [
                helper.make_node(
                    "DequantizeLinear",
                    ["q", "scale", "zero"],
                    ["w"],
                    "node",
                    axis=0,
                    block_size=block,
                ),
                helper.make_node("MatMul", ["x", "w"], ["y"]),
            ]
            rows = draw("f32", 2, 6)
            model = model_of(nodes, {"x": rows}, {"scale": scale}, ["y"], 21)
            model.graph.initializer.extend(tensors)
            yield Case("DequantizeLinear", "f32", f"{kind} {block}", model, {"x": rows})


GROUPS = (
    resizes, powers, slices, transposed, statistics, functions, empty_parts, infinities, moved,
    windows, determinants, largest_samples, batch_first, wide_quantised,
)  # fmt: skip
CASES = [c for group in GROUPS for c in group()]


@pytest.mark.parametrize("given", CASES, ids=[c.name for c in CASES])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_it_runs_and_is_right(given: Case, tmp_path: Path) -> None:
    assert status(given, tmp_path) == RUNS


@pytest.mark.parametrize(
    ("given", "needs"),
    [
        (case("Expand", "f32", draw("f32", 3, 1), i64(3, 4)), "a constant shape"),
        (case("Range", "i64", *map(np.asarray, i64(0, 9, 2))), "a constant shape"),
        (case("Det", "f32", draw("f32", 13, 13)), "at most 12 rows"),
        (case("HannWindow", "i32", np.array(9, np.int32)), "of node"),
        (
            case("Dropout", "f32", draw("f32", 3), None, np.array(True), weights=(1,)),
            "exported for inference",
        ),
        (case("Sign", "u64", np.uint64([1])), "other integers than unsigned ones of 64 bits"),
        (
            case(
                "Resize",
                "f32",
                draw("f32", 1, 1, 4, 4),
                np.ones(4, np.float32),
                None,
                i64(2, 2),
                weights=(1, 2),
                opset=18,
                coordinate_transformation_mode="tf_crop_and_resize",
                axes=[2, 3],
            ),
            "The operator Resize of node 'node' could not be imported",
        ),
        (
            case("Resize", "f32", draw("f32", 1, 1, 4, 4), None, None, i64(1, 1, 2, 2)),
            "known ahead",
        ),
    ],
    ids=lambda x: x.name if isinstance(x, Case) else "",
)
def test_it_is_refused_with_what_it_needs(given: Case, needs: str, tmp_path: Path) -> None:
    assert needs in status(given, tmp_path)


def test_an_opset_named_twice_is_one(tmp_path: Path) -> None:
    """onnx.compose.merge_models writes both models' imports."""
    given = case("Relu", "f32", draw("f32", 3))
    given.model.opset_import.append(helper.make_opsetid("", 17))
    assert status(given, tmp_path) == RUNS


def test_sizes_that_leave_nothing_inside_are_told(tmp_path: Path) -> None:
    """A picture of 1x1 ended in TVM's "Divide by zero"."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 1, 1]) for n in "xy")
    pool = helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2])
    mean = helper.make_node("GlobalAveragePool", ["p"], ["y"])
    graph = helper.make_graph([pool, mean], "g", [x], [y])
    path = tmp_path / "m.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]), path)
    with pytest.raises(ModelError, match="With x 1x2x1x1 a size inside the model is 0"):
        import_model(path, tmp_path / "w.bin")


@pytest.mark.parametrize("side", [1, 3])
def test_windows_that_do_not_fit_are_refused(side: int, tmp_path: Path) -> None:
    """The empty map was a constant, so the model ran and gave NaN."""
    weights = {"k": draw("f32", 2, 2, 3, 3)}
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], strides=[2, 2]),
        helper.make_node("Conv", ["a", "k"], ["b"], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["b"], ["y"]),
    ]
    path = onnx_models.save(
        tmp_path / "m.onnx", nodes, {"x": [1, 2, side, side]}, {"y": [1, 2, 1, 1]}, weights
    )
    with pytest.raises(ModelError, match=r"Conv of node '[ab]' needs a map that its windows fit"):
        import_model(path, tmp_path / "w.bin")
