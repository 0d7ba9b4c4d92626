"""TreeEnsemble and its older forms for regression and classes: a walk, and sums of its leaves.

Where ONNX leaves open what an ensemble of two classes with one weight gives, it is what ONNX
Runtime gives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from nnjit_studio.compiler.importer.onnx.ml.forest import LEAF, MODES, Branch, Forest, forest
from nnjit_studio.compiler.importer.onnx.ml.scores import transformed
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.tvm_adapter.trees import TREE_OP

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def ensemble(r: Rewriter) -> None:
    """Of ai.onnx.ml 5."""
    branches, leaves = _inner(r)
    held = _numbers(r, "leaf_weights")
    ends = {
        ("leaf", i): [(target, held[i])]
        for i, target in enumerate(r.attribute("leaf_targetids", []))
    }
    roots = [leaves.get(i, i) for i in r.attribute("tree_roots", [])]
    reached = {key for b in branches.values() for key in (b.yes, b.no)}.union(roots)
    if not reached <= branches.keys() | ends.keys():
        raise r.refuse("nodes that lead to others")
    targets = r.attribute("n_targets", 1)
    made = forest(roots, branches, ends, targets, r.refuse)
    how = _AGGREGATES[r.attribute("aggregate_function", 1)]
    scores = _aggregated(r, made, how)
    _finished(r, scores, _TRANSFORMS[r.attribute("post_transform", 0)], targets, r.node.output[0])


def regressor(r: Rewriter) -> None:
    targets = r.attribute("n_targets", 1)
    made = _older(r, "target", targets)
    scores = _aggregated(r, made, r.attribute("aggregate_function", b"SUM").decode())
    scores = _with_base(r, scores)
    _finished(r, scores, r.attribute("post_transform", b"NONE").decode(), targets, r.node.output[0])


def classifier(r: Rewriter) -> None:
    """Class, and a score for each, of a row."""
    labels = r.attribute("classlabels_int64s", None)
    if not labels:
        raise r.refuse("classes that are numbers")
    made = _older(r, "class", len(labels))
    used = [c for c in range(len(labels)) if not np.isnan(made.weights[:, c]).all()]
    transform = r.attribute("post_transform", b"NONE").decode()
    found, scores = [*r.node.output, ""][:2]
    whole = not np.isnan(made.weights).any() and not len(_numbers(r, "base_values"))
    if len(labels) == 2 and whole and not r.read[found]:
        transformed(r, _aggregated(r, made, "SUM"), transform, scores)
        return  # the class that ONNX Runtime names is not ONNX's; the scores are
    if len(labels) == 2:
        place, total = _two_classes(r, made, used, transform)
        transform = _of_many(transform, 1)
    else:
        total = _with_base(r, _aggregated(r, made, "SUM"))
        place = r.op("ArgMax", total, axis=1, keepdims=0)
    r.op("Gather", r.weight(labels, np.int64), place, axis=0, out=found)
    if scores:
        transformed(r, total, transform, scores)


def _two_classes(r: Rewriter, made: Forest, used: list[int], transform: str) -> tuple[str, str]:
    """Class and scores of the sum of one weight: a share where none is negative, else a distance
    from the border."""
    if used != [0] or len(_numbers(r, "base_values")) > 1:
        # ONNX Runtime has other results than ONNX for these.
        raise r.refuse("of two classes weights, and one base value at most, for the first alone")
    positive = bool((made.weights[:, 0][~np.isnan(made.weights[:, 0])] >= 0).all())
    score = _with_base(r, _aggregated(r, replace(made, weights=made.weights[:, :1]), "SUM"))
    over = r.op("Greater", score, r.weight(0.5 if positive else 0, np.float32))
    place = r.op("Reshape", r.op("Cast", over, to=TensorProto.INT64), r.weight([-1], np.int64))
    other = r.op("Neg", score)
    if transform == "LOGISTIC":
        score, other = r.op("Sigmoid", score), r.op("Sigmoid", other)
    elif positive:
        other = r.op("Sub", r.weight(1, np.float32), score)
    return place, r.op("Concat", other, score, axis=1)


def _older(r: Rewriter, what: str, targets: int) -> Forest:
    """The trees of the older forms, whose nodes and leaves are numbered in each tree."""
    keys = list(zip(*(r.attribute(f"nodes_{n}", []) for n in ("treeids", "nodeids")), strict=True))
    trees = [tree for tree, _ in keys]
    behind = {
        side: list(zip(trees, r.attribute(f"nodes_{side}nodeids", []), strict=True))
        for side in ("true", "false")
    }
    values, modes = _numbers(r, "nodes_values"), r.attribute("nodes_modes", [])
    features = r.attribute("nodes_featureids", [])
    missing = r.attribute("nodes_missing_value_tracks_true", None) or [0] * len(keys)
    known, branches, inside = set(keys), {}, set()
    for i, key in enumerate(keys):
        mode = modes[i].decode()
        if mode == LEAF:
            continue
        yes, no = behind["true"][i], behind["false"][i]
        if mode not in MODES or yes not in known or no not in known:
            raise r.refuse("nodes that lead to others, by modes that are known")
        nan = yes if missing[i] else _of_nan(mode, yes, no)
        branches[key] = Branch(features[i], mode, [values[i]], yes, no, nan)
        inside |= {yes, no}
    leaves: dict[Any, list[tuple[int, float]]] = {}
    ids = (r.attribute(f"{what}_{n}", []) for n in ("treeids", "nodeids", "ids"))
    weights = _numbers(r, f"{what}_weights")
    for tree, node, target, weight in zip(*ids, weights, strict=True):
        leaves.setdefault((tree, node), []).append((target, weight))
    roots = [key for key in keys if key not in inside]
    return forest(roots, branches, leaves, targets, r.refuse)


def _inner(r: Rewriter) -> tuple[dict[Any, Branch], dict[int, Any]]:
    """Nodes by their numbers; and those whose both ways lead to one leaf, as a tree of a leaf
    alone is written."""
    splits, modes = _numbers(r, "nodes_splits"), _numbers(r, "nodes_modes")
    ways = {
        side: [
            ("leaf", node) if leaf else node
            for node, leaf in zip(
                r.attribute(f"nodes_{side}nodeids", []), r.attribute(f"nodes_{side}leafs", []),
                strict=True,
            )
        ]
        for side in ("true", "false")
    }  # fmt: skip
    features = r.attribute("nodes_featureids", [])
    missing = r.attribute("nodes_missing_value_tracks_true", None) or [0] * len(features)
    members = _sets(_numbers(r, "membership_values"))
    branches, alone = {}, {}
    for i, feature in enumerate(features):
        yes, no, mode = ways["true"][i], ways["false"][i], MODES[int(modes[i])]
        if yes == no:
            alone[i] = yes
        held = next(members) if mode == "MEMBER" else [splits[i]]
        nan = yes if missing[i] else _of_nan(mode, yes, no)
        branches[i] = Branch(feature, mode, held, yes, no, nan)
    return branches, alone


def _sets(values: Any) -> Any:
    """The sets of the nodes that ask for members, one after the other, NaN between them."""
    found: list[float] = []
    for value in values:
        if np.isnan(value):
            yield found
            found = []
        else:
            found.append(float(value))


def _of_nan(mode: str, yes: Any, no: Any) -> Any:
    """NaN is in no order, and not equal to anything."""
    return yes if mode == "BRANCH_NEQ" else no


def _numbers(r: Rewriter, name: str) -> Any:
    """An attribute of numbers, which may be a tensor by itself or under a name of its own."""
    held = r.attribute(f"{name}_as_tensor", None) or r.attribute(name, None)
    if isinstance(held, TensorProto):
        return numpy_helper.to_array(held)
    return np.array(held or [], np.float32).astype(np.float64)


def _aggregated(r: Rewriter, made: Forest, how: str) -> str:
    """[N, targets] of the leaves that the rows reach."""
    x = r.op("Cast", r.node.input[0], to=TensorProto.FLOAT)
    walk = (r.weight(made.table), r.weight(made.thresholds), r.weight(made.roots))
    leaves = r.op(TREE_OP, x, *walk, depth=made.depth)
    absent = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0)
    empty = np.isnan(made.weights)
    held = r.weight(np.where(empty, absent, made.weights), np.float32)
    each = r.op("Gather", held, leaves, axis=0)
    if how in ("SUM", "AVERAGE"):
        total = r.along("ReduceSum", each, [1], keepdims=0)
        count = r.weight(len(made.roots), np.float32)
        return r.op("Div", total, count) if how == "AVERAGE" else total
    best = r.along(f"Reduce{how.title()}", each, [1], keepdims=0)
    return (
        r.op("Where", r.op("IsInf", best), r.weight(0, np.float32), best) if empty.any() else best
    )


def _with_base(r: Rewriter, scores: str) -> str:
    base = _numbers(r, "base_values")
    return r.op("Add", scores, r.weight(base, np.float32)) if len(base) else scores


def _finished(r: Rewriter, scores: str, transform: str, targets: int, out: str) -> None:
    transformed(r, scores, _of_many(transform, targets), out)


def _of_many(transform: str, targets: int) -> str:
    """What ONNX Runtime makes of scores: all but PROBIT it leaves out of a single one."""
    return transform if targets > 1 or transform == "PROBIT" else "NONE"
