"""One small ONNX model for each operator, dtype and variant that matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, NotImplemented

from nnjit_studio.compiler.onnx_file.native import NO_PASSES, native_session
from nnjit_studio.compiler.oracle.exact_sums import with_exact_sums

NUMPY: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i8": np.int8, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
FLOATS = ("f32", "f16")
INTS = ("i64", "i32", "i8", "u8")
WIDE = ("i64", "i32")
NUMBERS = (*FLOATS, *INTS)
EVERY = (*NUMBERS, "bool")
SPECIAL = (0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1.0, -1.0, np.inf, -np.inf, np.nan)


@dataclass(frozen=True)
class Case:
    """A model of one node (or few) with the feeds to run it on."""

    op: str
    dtype: str
    variant: str
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray] = field(repr=False)

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.op, self.dtype, self.variant)))


def draw(dtype: str, *shape: int, low: float = -4, high: float = 4, seed: int = 0) -> np.ndarray:
    """Seeded values; unsigned ones start at 0."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype in FLOATS:
        return rng.uniform(low, high, shape).astype(NUMPY[dtype])
    return rng.integers(max(low, 0) if dtype == "u8" else low, high + 1, shape).astype(NUMPY[dtype])


def special(dtype: str) -> np.ndarray:
    """29 values, among them all that make functions differ."""
    return np.concatenate([np.array(SPECIAL, NUMPY[dtype]), draw(dtype, 16)])


def model_of(
    nodes: list[onnx.NodeProto],
    feeds: dict[str, np.ndarray],
    weights: dict[str, np.ndarray],
    outputs: list[str],
    opset: int,
) -> onnx.ModelProto:
    """A checked model; the outputs' types are those that ONNX infers."""
    graph = helper.make_graph(
        nodes,
        "case",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in feeds.items()
        ],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    if any(n.domain == "com.microsoft" for n in nodes):
        imports.append(helper.make_opsetid("com.microsoft", 1))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def reference(case: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with typed outputs, and what ONNX Runtime, or else ONNX itself, computes.

    ONNX Runtime lacks a few operators for a few dtypes on the CPU; the
    reference evaluator of the onnx package has those.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    names = [o.name for o in model.graph.output]
    data = with_exact_sums(model).SerializeToString()
    try:
        session = native_session(data, NO_PASSES, intra_op_num_threads=1)
        values = session.run(names, case.feeds)
    except (NotImplemented, InvalidGraph, Fail):
        values = ReferenceEvaluator(model).run(names, case.feeds)
    arrays = {n: np.asarray(v) for n, v in zip(names, values, strict=True)}
    for port in model.graph.output:
        dtype = helper.np_dtype_to_tensor_dtype(arrays[port.name].dtype)
        port.CopyFrom(helper.make_tensor_value_info(port.name, dtype, arrays[port.name].shape))
    return model, arrays


def close(got: np.ndarray, expected: np.ndarray) -> None:
    """Integers equal; floats within a few roundings of their dtype."""
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    relative, absolute = (2e-5, 2e-6) if expected.dtype == np.float32 else (4e-3, 2e-3)
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=relative, atol=absolute
    )


def case(
    op: str,
    dtype: str,
    *inputs: np.ndarray | None,
    weights: tuple[int, ...] = (),
    outputs: int = 1,
    opset: int = 17,
    variant: str = "",
    domain: str = "",
    **attributes: Any,
) -> Case:
    """One node; ``weights`` are the positions of inputs that are initialisers."""
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    outs = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, outs, "node", domain=domain, **attributes)
    arrays = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    held = {n: a for i, (n, a) in enumerate(arrays.items()) if i in weights}
    feeds = {n: a for n, a in arrays.items() if n not in held}
    return Case(op, dtype, variant, model_of([node], feeds, held, outs, opset), feeds)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def all_cases() -> list[Case]:
    groups: tuple[Callable[[], Iterator[Case]], ...] = (
        unary, binary, logic, casts, shapes, indexing, scattering, ordering, reductions,
        normalisations, pooling, convolutions, contractions, made, quantised, contrib, recurrent,
    )  # fmt: skip
    return [c for group in groups for c in group()]


def unary() -> Iterator[Case]:
    for op in ("Abs", "Neg", "Sign"):
        for dtype in NUMBERS:
            if not (op == "Neg" and dtype == "u8"):
                yield case(op, dtype, special(dtype) if dtype == "f32" else draw(dtype, 3, 7))
    for op in (
        "Ceil", "Floor", "Round", "Exp", "Tanh", "Sigmoid", "Erf", "Relu", "Elu", "Selu",
        "LeakyRelu", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Sin", "Cos", "Tan",
        "Atan", "Sinh", "Cosh", "Asinh", "ThresholdedRelu", "Shrink", "Identity", "Reciprocal",
        "Celu",
    ):  # fmt: skip
        yield case(op, "f32", special("f32"))
        yield case(op, "f16", draw("f16", 3, 7))
    for op in ("Sqrt", "Log"):
        yield case(op, "f32", special("f32"))
        yield case(op, "f16", draw("f16", 3, 7, low=0.01))
    for op in ("Acos", "Asin", "Atanh"):
        yield case(op, "f32", draw("f32", 3, 7, low=-0.95, high=0.95))
    yield case("Acosh", "f32", draw("f32", 3, 7, low=1, high=9))
    for op in ("Gelu", "Mish"):
        yield case(op, "f32", draw("f32", 3, 7), opset=20 if op == "Gelu" else 18)
    yield case("Gelu", "f32", draw("f32", 3, 7), opset=20, variant="tanh", approximate="tanh")
    for op in ("IsNaN", "IsInf"):
        yield case(op, "f32", special("f32"))
    yield case("IsInf", "f32", special("f32"), variant="positive", detect_negative=0)
    yield case("BitwiseNot", "i32", draw("i32", 3, 7), opset=18)
    yield case("BitwiseNot", "u8", draw("u8", 3, 7), opset=18)
    yield case("Not", "bool", draw("bool", 3, 7))
    for dtype in ("f32", "i32", "i64", "i8", "u8"):
        low, high = np.array(1, NUMPY[dtype]), np.array(3, NUMPY[dtype])
        yield case("Clip", dtype, draw(dtype, 5, 9), low, high, weights=(1, 2))
    yield case("Clip", "f32", special("f32"), variant="open")
    for dtype in ("i32", "i64", "i8"):
        yield case("Relu", dtype, draw(dtype, 5, 9))
    yield case("Dropout", "f32", draw("f32", 3, 7))
    yield case("PRelu", "f32", draw("f32", 2, 5, 4), draw("f32", 5, 1), weights=(1,))


def binary() -> Iterator[Case]:
    for op in ("Add", "Sub", "Mul", "Div"):
        for dtype in NUMBERS:
            y = draw(dtype, 3, 1, seed=1, low=1) if op == "Div" else draw(dtype, 3, 1, seed=1)
            yield case(op, dtype, draw(dtype, 3, 9), y)
    for dtype in WIDE:
        x = draw(dtype, 40, low=-9, high=9)
        y = draw(dtype, 40, low=1, high=4, seed=1) * np.resize(np.array([1, -1], x.dtype), 40)
        yield case("Div", dtype, x, y, variant="signs")
        yield case("Mod", dtype, x, y, variant="signs")
        yield case("Mod", dtype, x, y, variant="fmod", fmod=1)
    for dtype in ("i8", "u8"):
        yield case("Mod", dtype, draw(dtype, 30), draw(dtype, 30, low=1, seed=2))
    yield case("Mod", "f32", draw("f32", 30), draw("f32", 30, low=0.5, seed=1), fmod=1)
    for op in ("Min", "Max"):
        for dtype in ("f32", "f16", "i64", "i32", "i8", "u8"):
            yield case(op, dtype, draw(dtype, 3, 9), draw(dtype, 9, seed=1))
        yield case(op, "f32", special("f32"), special("f32")[::-1].copy(), variant="special")
    for op in ("Sum", "Mean"):
        yield case(op, "f32", *(draw("f32", 3, 9, seed=s) for s in range(3)))
    positive = draw("f32", 3, 9, low=0.1)
    yield case("Pow", "f32", positive, draw("f32", 3, 9, seed=1))
    yield case("Pow", "f32", draw("f32", 3, 9), np.array(2, np.float32), weights=(1,), variant="2")
    yield case("Pow", "f32", draw("f32", 3, 9), np.array(3, np.int64), weights=(1,), variant="i64")
    for dtype in WIDE:
        y = draw(dtype, 3, 9, seed=1, low=0, high=5)
        yield case("Pow", dtype, draw(dtype, 3, 9), y)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for dtype in INTS:
            x, y = draw(dtype, 3, 9), draw(dtype, 9, seed=1)
            yield case(op, dtype, x, y, opset=18)
    for direction in ("LEFT", "RIGHT"):
        x, y = draw("u8", 30, high=255), draw("u8", 30, high=7, seed=1)
        yield case("BitShift", "u8", x, y, variant=direction.lower(), direction=direction)


def logic() -> Iterator[Case]:
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        for dtype in ("f32", "f16", "i64", "i32", "u8", "i8"):
            yield case(op, dtype, draw(dtype, 3, 9).round(), draw(dtype, 9, seed=1).round())
    yield case("Equal", "bool", draw("bool", 3, 9), draw("bool", 9, seed=1))
    for op in ("And", "Or", "Xor"):
        yield case(op, "bool", draw("bool", 3, 9), draw("bool", 9, seed=1))
    for dtype in EVERY:
        condition, other = draw("bool", 3, 9), draw(dtype, 9, seed=1)
        yield case("Where", dtype, condition, draw(dtype, 3, 1), other)


def casts() -> Iterator[Case]:
    for source in EVERY:
        for target in EVERY:
            if source == target:
                continue
            low, high = (-140, 140) if source in FLOATS and target in FLOATS else (-120, 120)
            if target == "u8" and source not in ("bool", "u8"):
                low = 0
            x = draw(source, 41, low=low, high=high)
            to = helper.np_dtype_to_tensor_dtype(np.dtype(NUMPY[target]))
            yield case("Cast", source, x, variant=f"to {target}", to=to)
    ties = np.array([1 + 2**-11, 1 + 3 * 2**-11, 65519, 65520, 2**-24, 2**-25, 3e-8, 6e-5, 1e-7])
    x = np.concatenate([ties, -ties, SPECIAL, np.geomspace(1e-8, 1e5, 40)]).astype(np.float32)
    yield case("Cast", "f32", x, variant="to f16 rounding", to=onnx.TensorProto.FLOAT16)
    wide = np.array([300, -300, 2**31 + 5, -(2**40) + 3, 255, 256], np.int64)
    for target in ("i32", "i8", "u8"):
        to = helper.np_dtype_to_tensor_dtype(np.dtype(NUMPY[target]))
        yield case("Cast", "i64", wide, variant=f"to {target} wrapping", to=to)


def shapes() -> Iterator[Case]:
    for dtype in EVERY:
        x = draw(dtype, 2, 3, 4)
        yield case("Transpose", dtype, x, perm=[2, 0, 1])
        yield case("Concat", dtype, x, draw(dtype, 2, 1, 4, seed=1), axis=1)
        yield case("Reshape", dtype, x, i64(4, 6), weights=(1,))
        starts, ends, axes, steps = i64(1, -1), i64(3, -9), i64(1, 2), i64(1, -2)
        yield case("Slice", dtype, x, starts, ends, axes, steps, weights=(1, 2, 3, 4))
        yield case("Expand", dtype, draw(dtype, 3, 1), i64(2, 3, 4), weights=(1,))
    yield case("Pad", "f32", draw("f32", 3, 4), i64(1, 0, 2, 3), weights=(1,))
    fill = np.array(7, np.int32)
    yield case("Pad", "i32", draw("i32", 3, 4), i64(1, 0, 2, 3), fill, weights=(1, 2))
    for mode in ("reflect", "edge"):
        x, pads = draw("f32", 1, 2, 4, 5), i64(0, 0, 1, 2, 0, 0, 2, 1)
        yield case("Pad", "f32", x, pads, weights=(1,), variant=mode, mode=mode)
    for dtype in ("f32", "i64", "bool"):
        yield case("Tile", dtype, draw(dtype, 2, 3), i64(2, 3), weights=(1,))
    yield case("Split", "f32", draw("f32", 2, 9), i64(2, 3, 4), weights=(1,), outputs=3, axis=1)
    yield case("Split", "f32", draw("f32", 2, 8), outputs=2, axis=1, variant="equal")
    yield case("Squeeze", "f32", draw("f32", 2, 1, 3), i64(1), weights=(1,))
    yield case("Unsqueeze", "f32", draw("f32", 2, 3), i64(1), weights=(1,))
    yield case("Flatten", "f32", draw("f32", 2, 3, 4))
    for mode in ("DCR", "CRD"):
        yield case(
            "DepthToSpace", "f32", draw("f32", 1, 8, 2, 3), variant=mode, mode=mode, blocksize=2
        )
    yield case("SpaceToDepth", "f32", draw("f32", 1, 2, 4, 6), blocksize=2)
    for dtype in ("f32", "i64", "bool"):
        yield case("Trilu", dtype, draw(dtype, 2, 4, 5), upper=1)
        yield case("Trilu", dtype, draw(dtype, 4, 5), variant="lower", upper=0)
    yield case("Trilu", "f32", draw("f32", 4, 5), i64(1)[0], weights=(1,), variant="k", upper=0)
    for mode in ("nearest", "linear", "cubic"):
        for how in ("half_pixel", "asymmetric", "align_corners"):
            x, sizes = draw("f32", 1, 2, 4, 5), i64(1, 2, 7, 9)
            scale = None
            yield case(
                "Resize", "f32", x, None, scale, sizes, weights=(1,), variant=f"{mode} {how}",
                mode=mode, coordinate_transformation_mode=how,
            )  # fmt: skip
    scales = np.array([1, 1, 2, 2], np.float32)
    x = draw("f32", 1, 2, 4, 5)
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    yield case(
        "Resize",
        "f32",
        x,
        None,
        scales,
        weights=(1,),
        variant="scales",
        nearest_mode="floor",
        **how,
    )
    yield case("Upsample", "f32", x, scales, weights=(1,), opset=9, mode="nearest")


def indexing() -> Iterator[Case]:
    index = np.array([[0, 2], [-1, 1]], np.int64)
    for dtype in EVERY:
        yield case("Gather", dtype, draw(dtype, 3, 5), index, axis=0)
    for kind in WIDE:
        yield case(
            "Gather",
            "f32",
            draw("f32", 3, 5),
            index.astype(NUMPY[kind]),
            axis=1,
            variant=f"{kind} axis 1",
        )
        x, at = draw("f32", 3, 5), np.array([[0, -1, 2, 1, 0], [2, 2, 0, 0, -3]], NUMPY[kind])
        yield case("GatherElements", "f32", x, at, axis=0, variant=kind)
    yield case("GatherElements", "i64", draw("i64", 3, 5), draw("i64", 3, 2, low=0, high=4), axis=1)
    yield case("GatherND", "f32", draw("f32", 3, 4, 5), i64(0, 1, 2, -1).reshape(2, 2))
    yield case(
        "GatherND",
        "f32",
        draw("f32", 2, 3, 4),
        i64(1, 0).reshape(2, 1),
        batch_dims=1,
        variant="batch",
    )
    depth, values = np.array(5, np.int64), np.array([-1, 2], np.float32)
    yield case("OneHot", "f32", i64(0, 3, -1, 2), depth, values, weights=(1, 2))
    yield case(
        "OneHot", "f32", i64(0, 3, 2), depth, values, weights=(1, 2), variant="axis 0", axis=0
    )
    yield case(
        "Compress", "f32", draw("f32", 3, 4), np.array([True, False, True]), weights=(1,), axis=0
    )
    yield case(
        "GridSample", "f32", draw("f32", 1, 2, 4, 5), draw("f32", 1, 3, 2, 2, low=-1, high=1)
    )


def scattering() -> Iterator[Case]:
    at = np.array([[1, 0, 2], [0, 2, -1]], np.int64)
    for dtype in ("f32", "i64", "i32"):
        yield case(
            "ScatterElements", dtype, draw(dtype, 3, 3), at, draw(dtype, 2, 3, seed=1), axis=0
        )
    for reduction in ("add", "mul", "max", "min"):
        x, u = draw("f32", 3, 3), draw("f32", 2, 3, seed=1)
        yield case(
            "ScatterElements",
            "f32",
            x,
            at,
            u,
            axis=1,
            variant=reduction,
            reduction=reduction,
            opset=18,
        )
    yield case("Scatter", "f32", draw("f32", 3, 3), at, draw("f32", 2, 3, seed=1), opset=9)
    nd = np.array([[0, 1], [2, -1]], np.int64)
    for dtype in ("f32", "i64"):
        yield case("ScatterND", dtype, draw(dtype, 3, 4, 2), nd, draw(dtype, 2, 2, seed=1))
    for reduction in ("add", "mul"):
        x, u = draw("f32", 3, 4), draw("f32", 2, 4, seed=1)
        yield case(
            "ScatterND",
            "f32",
            x,
            i64(2, 2).reshape(2, 1),
            u,
            variant=reduction,
            reduction=reduction,
        )


def ordering() -> Iterator[Case]:
    for dtype in ("f32", "i64"):
        x = draw(dtype, 3, 9, low=-40, high=40)
        yield case("TopK", dtype, x, i64(4), weights=(1,), outputs=2)
    for axis, largest in ((0, 1), (1, 0)):
        x = draw("f32", 5, 6)
        yield case(
            "TopK",
            "f32",
            x,
            i64(3),
            weights=(1,),
            outputs=2,
            variant=f"axis {axis} largest {largest}",
            axis=axis,
            largest=largest,
        )
    yield case(
        "TopK", "f32", draw("f32", 3, 9).round(), i64(4), weights=(1,), outputs=2, variant="ties"
    )
    for op in ("ArgMax", "ArgMin"):
        for dtype in ("f32", "i32", "u8", "i8"):
            yield case(op, dtype, draw(dtype, 3, 9).round(), axis=1)
        yield case(op, "f32", draw("f32", 3, 9), axis=0, keepdims=0, variant="axis 0")
        yield case(
            op, "f32", draw("f32", 3, 9).round(), axis=1, select_last_index=1, variant="last"
        )
    for dtype in ("f32", "i32", "i64"):
        yield case("CumSum", dtype, draw(dtype, 3, 9), np.array(1, np.int64), weights=(1,))
    for name, attrs in {"exclusive": {"exclusive": 1}, "reverse": {"reverse": 1}}.items():
        yield case(
            "CumSum",
            "f32",
            draw("f32", 4, 9),
            np.array(0, np.int64),
            weights=(1,),
            variant=name,
            **attrs,
        )
    yield case("NonZero", "f32", draw("f32", 3, 4).round())
    yield case("Unique", "f32", draw("f32", 9).round())
    boxes, scores = draw("f32", 1, 6, 4, low=0, high=1), draw("f32", 1, 1, 6, low=0, high=1)
    limits = (i64(3), np.array([0.5], np.float32), np.array([0.1], np.float32))
    yield case("NonMaxSuppression", "f32", boxes, scores, *limits, weights=(2, 3, 4))


def reductions() -> Iterator[Case]:
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
        for dtype in (
            "f32",
            "i32",
            "i64",
            *(("u8", "i8") if op in ("ReduceMax", "ReduceMin") else ()),
        ):
            if op == "ReduceSum":
                yield case(op, dtype, draw(dtype, 3, 4, 5), i64(1), weights=(1,))
            else:
                yield case(op, dtype, draw(dtype, 3, 4, 5), axes=[1])
    for op in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"):
        yield case(op, "f32", draw("f32", 3, 4, 9), axes=[0, 2])
        yield case(
            op,
            "f32",
            draw("f32", 3, 4, 9),
            i64(-1),
            weights=(1,),
            opset=18,
            variant="opset 18",
            keepdims=0,
        )
    yield case("ReduceLogSum", "f32", draw("f32", 3, 4, 9, low=0.1), axes=[1])
    yield case("ReduceSum", "f32", draw("f32", 3, 4, 9), variant="all")
    yield case("ReduceMean", "f16", draw("f16", 3, 4, 9), axes=[2])
    yield case(
        "ReduceMean",
        "f32",
        draw("f32", 3, 4, 9),
        i64(1, 2),
        weights=(1,),
        opset=18,
        variant="opset 18",
    )


def normalisations() -> Iterator[Case]:
    for axis in (-1, 0, 1):
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            yield case(op, "f32", draw("f32", 3, 4, 9), axis=axis, variant=f"axis {axis}")
    yield case("Softmax", "f16", draw("f16", 3, 9))
    yield case("Softmax", "f32", draw("f32", 2, 3, 4), opset=11, variant="opset 11")
    scale, bias = draw("f32", 8, seed=1), draw("f32", 8, seed=2)
    yield case("LayerNormalization", "f32", draw("f32", 2, 5, 8), scale, bias, weights=(1, 2))
    yield case(
        "LayerNormalization",
        "f16",
        draw("f16", 2, 5, 8),
        scale.astype("f2"),
        bias.astype("f2"),
        weights=(1, 2),
    )
    x = draw("f32", 2, 8, 4, 5)
    mean, var = draw("f32", 8, seed=3), draw("f32", 8, seed=4, low=0.5)
    yield case("BatchNormalization", "f32", x, scale, bias, mean, var, weights=(1, 2, 3, 4))
    yield case("InstanceNormalization", "f32", x, scale, bias, weights=(1, 2))
    yield case(
        "GroupNormalization",
        "f32",
        x,
        scale,
        bias,
        weights=(1, 2),
        num_groups=4,
        opset=21,
        variant="opset 21",
    )
    yield case("LRN", "f32", x, size=3)
    yield case("LpNormalization", "f32", draw("f32", 3, 5), axis=-1)
    yield case("MeanVarianceNormalization", "f32", x)
    yield case("RMSNormalization", "f32", draw("f32", 2, 5, 8), scale, weights=(1,), opset=23)


def pooling() -> Iterator[Case]:
    x = draw("f32", 1, 3, 7, 9)
    for op in ("MaxPool", "AveragePool"):
        yield case(op, "f32", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        yield case(op, "f32", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, variant="ceil")
        yield case(op, "f32", x, kernel_shape=[3, 2], auto_pad="SAME_UPPER", variant="same")
        yield case(op, "f32", draw("f32", 1, 3, 9), kernel_shape=[3], variant="1d")
    yield case(
        "AveragePool",
        "f32",
        x,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
        variant="include pad",
    )
    yield case("MaxPool", "u8", draw("u8", 1, 2, 5, 6), kernel_shape=[2, 2])
    yield case("MaxPool", "i8", draw("i8", 1, 2, 5, 6), kernel_shape=[2, 2])
    yield case("MaxPool", "f32", x, kernel_shape=[2, 2], dilations=[2, 2], variant="dilated")
    yield case("MaxPool", "f32", x, kernel_shape=[2, 2], outputs=2, variant="indices")
    yield case("GlobalAveragePool", "f32", x)
    yield case("GlobalMaxPool", "f32", x)
    yield case("LpPool", "f32", x, kernel_shape=[2, 2], p=2)
    yield case("GlobalLpPool", "f32", x, p=2)


def convolutions() -> Iterator[Case]:
    x, w, b = draw("f32", 1, 4, 6, 7), draw("f32", 6, 4, 3, 3, seed=1), draw("f32", 6, seed=2)
    yield case("Conv", "f32", x, w, b, weights=(1, 2), pads=[1, 1, 1, 1])
    yield case(
        "Conv",
        "f32",
        x,
        w,
        weights=(1,),
        strides=[2, 2],
        auto_pad="SAME_UPPER",
        variant="same strided",
    )
    yield case("Conv", "f32", x, w, weights=(1,), dilations=[2, 2], variant="dilated")
    yield case("Conv", "f32", x, draw("f32", 6, 2, 3, 3), weights=(1,), group=2, variant="grouped")
    yield case(
        "Conv", "f32", x, draw("f32", 4, 1, 3, 3), weights=(1,), group=4, variant="depthwise"
    )
    yield case(
        "Conv", "f32", draw("f32", 1, 3, 9), draw("f32", 5, 3, 3), weights=(1,), variant="1d"
    )
    yield case(
        "Conv",
        "f32",
        draw("f32", 1, 2, 4, 5, 4),
        draw("f32", 3, 2, 2, 2, 2),
        weights=(1,),
        variant="3d",
    )
    yield case("Conv", "f16", x.astype("f2"), w.astype("f2"), weights=(1,))
    t = draw("f32", 4, 3, 3, 3, seed=3)
    yield case(
        "ConvTranspose",
        "f32",
        x,
        t,
        weights=(1,),
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    )
    yield case(
        "ConvTranspose",
        "f32",
        x,
        draw("f32", 4, 3, 2, 2),
        draw("f32", 3),
        weights=(1, 2),
        strides=[2, 2],
        variant="pixels",
    )
    yield case(
        "ConvTranspose",
        "f32",
        x,
        draw("f32", 4, 2, 2, 2),
        weights=(1,),
        group=2,
        strides=[2, 2],
        variant="grouped",
    )
    yield case(
        "ConvTranspose",
        "f32",
        draw("f32", 1, 3, 9),
        draw("f32", 3, 2, 4),
        weights=(1,),
        strides=[2],
        variant="1d",
    )


def contractions() -> Iterator[Case]:
    for dtype in ("f32", "f16", "i32", "i64"):
        yield case("MatMul", dtype, draw(dtype, 5, 7), draw(dtype, 7, 6, seed=1))
    yield case(
        "MatMul", "f32", draw("f32", 2, 3, 4, 5), draw("f32", 3, 5, 6, seed=1), variant="broadcast"
    )
    yield case("MatMul", "f32", draw("f32", 5), draw("f32", 5, 6, seed=1), variant="vector")
    a, b, c = draw("f32", 5, 7), draw("f32", 6, 7, seed=1), draw("f32", 6, seed=2)
    yield case("Gemm", "f32", a, b, c, weights=(1, 2), transB=1)
    yield case(
        "Gemm", "f32", a.T.copy(), b, c, transA=1, transB=1, alpha=0.5, beta=2.0, variant="scaled"
    )
    yield case("Einsum", "f32", draw("f32", 2, 3, 4), draw("f32", 2, 5, 4), equation="bik,bjk->bij")
    yield case("Einsum", "f32", draw("f32", 4, 4), equation="ii->i", variant="diagonal")
    yield case(
        "Einsum",
        "f32",
        draw("f32", 2, 3, 4, 5),
        draw("f32", 2, 6, 4, 5),
        equation="bqhd,bkhd->bhqk",
        variant="attention",
    )


def made() -> Iterator[Case]:
    bounds = [np.array(v, np.int64) for v in (2, 11, 3)]
    ends = [np.array(v, np.float32) for v in (2, 4, 0.5)]
    for dtype, values in (("i64", bounds), ("f32", ends)):
        names = ["a", "b", "c"]
        nodes = [
            helper.make_node("Range", names, ["r"], "node"),
            helper.make_node("Add", ["r", "x"], ["y"]),
        ]
        feeds = {"x": np.ones(1, values[0].dtype)}
        weights = dict(zip(names, values, strict=True))
        yield Case("Range", dtype, "", model_of(nodes, feeds, weights, ["y"], 17), feeds)
    fill = numpy_helper.from_array(np.array([3], np.float32))
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["c"], "node", value=fill),
        helper.make_node("Add", ["c", "x"], ["y"]),
    ]
    feeds = {"x": draw("f32", 3)}
    yield Case(
        "ConstantOfShape", "f32", "", model_of(nodes, feeds, {"s": i64(2, 3)}, ["y"], 17), feeds
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "node"),
        helper.make_node("Reshape", ["z", "s"], ["y"]),
    ]
    feeds = {"x": draw("f32", 3, 4), "z": draw("f32", 12)}
    yield Case("Shape", "f32", "", model_of(nodes, feeds, {}, ["y"], 17), feeds)
    nodes = [
        helper.make_node("Size", ["x"], ["s"], "node"),
        helper.make_node("Cast", ["s"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    feeds = {"x": draw("f32", 3, 4)}
    yield Case("Size", "f32", "", model_of(nodes, feeds, {}, ["y"], 17), feeds)
    yield case("EyeLike", "f32", draw("f32", 3, 4), k=1)


def quantised() -> Iterator[Case]:
    scale, zero = np.array(0.05, np.float32), np.array(3, np.int8)
    x = draw("f32", 3, 9, low=-9, high=9)
    yield case("QuantizeLinear", "f32", x, scale, zero, weights=(1, 2), variant="i8")
    yield case(
        "QuantizeLinear", "f32", x, scale, zero.astype(np.uint8), weights=(1, 2), variant="u8"
    )
    yield case(
        "DequantizeLinear", "i8", draw("i8", 3, 9, low=-90, high=90), scale, zero, weights=(1, 2)
    )
    axis = (draw("f32", 3, low=0.01, high=0.1), np.array([1, 2, 3], np.uint8))
    yield case("DequantizeLinear", "u8", draw("u8", 3, 9, high=250), *axis, weights=(1, 2), axis=0)
    yield case("DynamicQuantizeLinear", "f32", x, outputs=3)
    a, b = draw("u8", 4, 7, high=250), draw("i8", 7, 5, low=-100, high=100)
    yield case("MatMulInteger", "u8", a, b, np.array(7, np.uint8), weights=(1, 2))
    deep = draw("i8", 4, 8, low=-100, high=100), draw("i8", 8, 5, low=-100, high=100)
    yield case("MatMulInteger", "i8", *deep, weights=(1,))


def contrib() -> Iterator[Case]:
    domain = "com.microsoft"
    x, b = draw("f32", 2, 3, 8), draw("f32", 8, seed=1)
    yield case("BiasGelu", "f32", x, b, weights=(1,), domain=domain)
    yield case("FastGelu", "f32", x, b, weights=(1,), domain=domain)
    yield case(
        "SkipLayerNormalization",
        "f32",
        x,
        draw("f32", 2, 3, 8, seed=5),
        b,
        draw("f32", 8, seed=2),
        draw("f32", 8, seed=3),
        weights=(2, 3, 4),
        domain=domain,
    )
    skip, scale = draw("f32", 2, 3, 8, seed=5), draw("f32", 8, seed=2)
    for op, given in (
        ("SkipLayerNormalization", (x, skip, b)),
        ("SkipSimplifiedLayerNormalization", (x, skip, b)),
    ):
        held = tuple(range(2, len(given)))
        yield case(op, "f32", *given, weights=held, domain=domain, variant="no bias")
        yield case(
            op, "f32", *given, *([None] if "Simp" not in op else []), scale,
            weights=(*held, 3), domain=domain, variant="bias", opset=16,
        )  # fmt: skip
    yield case("SimplifiedLayerNormalization", "f32", x, scale, weights=(1,), axis=-1, opset=14)
    for op in ("QuickGelu", "Gelu", "FastGelu"):
        yield case(op, "f32", x, domain=domain, variant="com.microsoft")
    left, right = draw("f32", 2, 8, 5), draw("f32", 2, 6, 8)
    yield case(
        "FusedMatMul", "f32", left, right, domain=domain, alpha=0.5, transA=1, transB=1
    )  # fmt: skip
    yield from rotations()
    signed, scalar = draw("i8", 8, 6, low=-100, high=100), np.array(0.02, np.float32)
    yield case(
        "DynamicQuantizeMatMul", "f32", x, signed, scalar, np.array(3, np.int8), draw("f32", 6),
        weights=(1, 2, 3, 4), domain=domain,
    )  # fmt: skip
    a, a_zero = draw("u8", 5, 7, high=250), np.array(120, np.uint8)
    columns = draw("u8", 7, 6, high=255), draw("u8", 6, high=250, seed=3)
    yield case(
        "MatMulIntegerToFloat", "u8", a, columns[0], scalar, draw("f32", 6, low=0.01, high=0.1),
        a_zero, columns[1], draw("f32", 6), weights=(1, 2, 3, 4, 5, 6), domain=domain,
    )  # fmt: skip
    packed = draw("u8", 6, 2, 8, high=250)
    scales, zeros = draw("f32", 12, low=0.01, high=0.1), draw("u8", 6, high=250, seed=2)
    sizes = {"K": 32, "N": 6, "bits": 4, "block_size": 16, "domain": domain}
    wide = draw("f32", 2, 3, 32)
    yield case("MatMulNBits", "f32", wide, packed, scales, weights=(1, 2), **sizes)
    yield case(
        "MatMulNBits",
        "f32",
        wide,
        packed,
        scales,
        zeros,
        weights=(1, 2, 3),
        variant="zero points",
        **sizes,
    )
    eight = draw("u8", 6, 2, 16, high=255), draw("f32", 12, low=0.001, high=0.01)
    sizes["bits"] = 8
    yield case("MatMulNBits", "f32", wide, *eight, weights=(1, 2), variant="8 bits", **sizes)


def rotations() -> Iterator[Case]:
    """RotaryEmbedding of both domains: by heads or whole rows, halves or pairs, parts of a head."""
    turns = np.linspace(0, 3, 40, dtype=np.float32).reshape(10, 4)
    tables = np.cos(turns), np.sin(turns)
    heads, rows = draw("f32", 2, 3, 5, 8), draw("f32", 2, 5, 24)
    places = np.arange(10, dtype=np.int64).reshape(2, 5) % 7
    for pairs in (0, 1):
        form = "pairs" if pairs else "halves"
        for x, rank in ((heads, 4), (rows, 3)):
            given = {"interleaved": pairs, **({"num_heads": 3} if rank == 3 else {})}
            for order, opset, domain in (
                ((places, *tables), 17, "com.microsoft"),
                ((*tables, places), 23, ""),
            ):
                known = (2, 3) if domain else (1, 2)
                name = f"{domain or 'ONNX'} {form} rank {rank}"
                yield case(
                    "RotaryEmbedding", "f32", x, *order, weights=known, opset=opset,
                    domain=domain, variant=name, **given,
                )  # fmt: skip
    yield case(
        "RotaryEmbedding", "f32", heads, i64(2), *tables, weights=(2, 3),
        domain="com.microsoft", variant="offset",
    )  # fmt: skip
    wide = draw("f32", 2, 3, 5, 12)
    yield case(
        "RotaryEmbedding", "f32", wide, *tables, places, weights=(1, 2), opset=23,
        rotary_embedding_dim=8, variant="a part",
    )  # fmt: skip


def recurrent() -> Iterator[Case]:
    x = draw("f32", 3, 2, 4)
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        outs = 3 if op == "LSTM" else 2
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            w = draw("f32", count, gates * 5, 4, seed=1, low=-1, high=1)
            r = draw("f32", count, gates * 5, 5, seed=2, low=-1, high=1)
            bias = draw("f32", count, gates * 10, seed=3)
            start = [None, *(draw("f32", count, 2, 5, seed=4 + i) for i in range(outs - 1))]
            given = start if direction == "forward" else []
            yield case(
                op, "f32", x, w, r, bias, *given, weights=(1, 2, 3), outputs=outs,
                hidden_size=5, direction=direction, variant=direction,
            )  # fmt: skip
        if op == "GRU":
            yield case(
                op, "f32", x, w[:1], r[:1], bias[:1], weights=(1, 2, 3), outputs=2,
                hidden_size=5, linear_before_reset=1, variant="linear before reset",
            )  # fmt: skip
    yield case("LSTM", "f32", x, w_of(4), u_of(4), weights=(1, 2), hidden_size=5, variant="no bias")


def w_of(gates: int) -> np.ndarray:
    return draw("f32", 1, gates * 5, 4, seed=1, low=-1, high=1)


def u_of(gates: int) -> np.ndarray:
    return draw("f32", 1, gates * 5, 5, seed=2, low=-1, high=1)
