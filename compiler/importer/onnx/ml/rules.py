"""Operators of ai.onnx.ml, written with ONNX's own. Formulas: ONNX, docs/Operators-ml.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from nnjit_studio.compiler.importer.onnx.ml import trees, vectors
from nnjit_studio.compiler.importer.onnx.ml.scores import transformed
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter

DOMAIN = "ai.onnx.ml"


def _floats(r: Rewriter) -> str:
    return r.op("Cast", r.node.input[0], to=TensorProto.FLOAT)


def _scaler(r: Rewriter) -> None:
    x, offset, scale = _floats(r), r.attribute("offset", []), r.attribute("scale", [])
    x = r.op("Sub", x, r.weight(offset or [0.0], np.float32))
    r.op("Mul", x, r.weight(scale or [1.0], np.float32), out=r.node.output[0])


def _binarizer(r: Rewriter) -> None:
    over = r.op("Greater", _floats(r), r.weight(r.attribute("threshold", 0.0), np.float32))
    r.op("Cast", over, to=TensorProto.FLOAT, out=r.node.output[0])


def _features(r: Rewriter) -> None:
    """Elements of the last axis at places that an input has; those of a list are one row."""
    x, places = r.node.input
    flat = r.op("Reshape", places, r.weight([-1], np.int64))
    if len(r.types.get(x, (0, None))[1] or ()) < 2:  # a list, or not known yet
        x = r.op("Expand", x, r.weight([1, 1], np.int64))
    r.op("Gather", x, flat, axis=-1, out=r.node.output[0])


def _normalizer(r: Rewriter) -> None:
    """By the largest, the sum or the length of each row."""
    norm, x = r.attribute("norm", b"MAX"), _floats(r)
    if norm == b"MAX":
        size = r.along("ReduceMax", x, [-1], keepdims=1)
    elif norm == b"L1":
        size = r.along("ReduceSum", r.op("Abs", x), [-1], keepdims=1)
    else:
        size = r.op("Sqrt", r.along("ReduceSum", r.op("Mul", x, x), [-1], keepdims=1))
    none = r.op("Equal", size, r.weight(0, np.float32))
    safe = r.op("Where", none, r.weight(1, np.float32), size)
    r.op("Div", x, safe, out=r.node.output[0])


def _imputer(r: Rewriter) -> None:
    """Another value in the place of one."""
    x = r.node.input[0]
    values = r.attribute("imputed_value_floats", None)
    if not values:
        raise r.refuse("values that are floats")
    replaced = r.attribute("replaced_value_float", 0.0)
    if np.isnan(replaced):
        missing = r.op("IsNaN", x)
    else:
        missing = r.op("Equal", x, r.weight(replaced, np.float32))
    r.op("Where", missing, r.weight(values, np.float32), x, out=r.node.output[0])


def _linear(r: Rewriter, rows: int) -> str:
    weights = np.array(r.attribute("coefficients", []), np.float32).reshape(rows, -1)
    product = r.op("MatMul", _floats(r), r.weight(weights.T.copy()))
    bias = r.attribute("intercepts", None)
    return r.op("Add", product, r.weight(bias, np.float32)) if bias else product


def _linear_regressor(r: Rewriter) -> None:
    scores = _linear(r, r.attribute("targets", 1))
    transformed(r, scores, r.attribute("post_transform", b"NONE").decode(), r.node.output[0])


def _linear_classifier(r: Rewriter) -> None:
    labels = r.attribute("classlabels_ints", None)
    if not labels:
        raise r.refuse("classes that are numbers")
    count = len(r.attribute("intercepts", None) or labels)
    if count != len(labels):
        raise r.refuse("a row of coefficients for each class")
    scores = _linear(r, count)
    best = r.op("ArgMax", scores, axis=1, keepdims=0)
    r.op("Gather", r.weight(labels, np.int64), best, axis=0, out=r.node.output[0])
    if len(r.node.output) > 1 and r.node.output[1]:
        how = r.attribute("post_transform", b"NONE").decode()
        transformed(r, scores, how, r.node.output[1])


def _label_encoder(r: Rewriter) -> None:
    """Numbers for numbers; of equal keys the first one counts."""
    keys, values = (_table(r, name) for name in ("keys", "values"))
    if keys is None or values is None:
        raise r.refuse("keys and values that are numbers")
    default = _table(r, "default")
    if default is None:
        kind = "int64" if values.dtype.kind == "i" else "float"
        default = np.array([r.attribute(f"default_{kind}", -1 if kind == "int64" else -0.0)])
    hit = r.op("Equal", r.along("Unsqueeze", r.node.input[0], [-1]), r.weight(keys))
    first = r.weight(np.arange(len(keys), 0, -1), np.int64)
    place = r.along("ReduceMax", r.op("Where", hit, first, r.weight(0, np.int64)), [-1], keepdims=0)
    table = np.concatenate([default.reshape(-1).astype(values.dtype), values[::-1]])
    r.op("Gather", r.weight(table), place, axis=0, out=r.node.output[0])


def _one_hot(r: Rewriter) -> None:
    """A one at the place of each category; what is none has zeros alone."""
    categories = r.attribute("cats_int64s", [])
    if not categories or len(set(categories)) < len(categories):
        raise r.refuse("categories that are numbers, each once")
    whole = r.op("Cast", r.node.input[0], to=TensorProto.INT64)
    hit = r.op("Equal", r.along("Unsqueeze", whole, [-1]), r.weight(categories, np.int64))
    r.op("Cast", hit, to=TensorProto.FLOAT, out=r.node.output[0])


def _table(r: Rewriter, name: str) -> Any:
    for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
        held = r.attribute(f"{name}_{kind}", None)
        if held:
            return np.array(held, dtype)
    held = r.attribute(f"{name}_tensor", None)
    array = numpy_helper.to_array(held) if held is not None else None
    return array if array is not None and array.dtype.kind in "if" else None


def rule_of(op_type: str) -> Callable[[Rewriter], None] | None:
    """The rule of an operator, which refuses attributes that do not fit each other."""
    rule = RULES.get(op_type)
    if rule is None:
        return None

    def checked(r: Rewriter) -> None:
        try:
            rule(r)
        except (IndexError, RuntimeError, StopIteration, ValueError) as error:
            raise r.refuse("attributes that fit each other") from error

    return checked


RULES: dict[str, Callable[[Rewriter], None]] = {
    "ArrayFeatureExtractor": _features,
    "Binarizer": _binarizer,
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "OneHotEncoder": _one_hot,
    "SVMClassifier": vectors.classifier,
    "SVMRegressor": vectors.regressor,
    "Scaler": _scaler,
    "TreeEnsemble": trees.ensemble,
    "TreeEnsembleClassifier": trees.classifier,
    "TreeEnsembleRegressor": trees.regressor,
}
