"""TreeEnsemble and its older forms for regression and classes: a walk, and sums of its leaves.

Where ONNX leaves open what an ensemble of two classes with one weight gives, it is what ONNX
Runtime gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from nnjit_studio.compiler.importer.onnx.ml.forest import (
    LEAF,
    MEMBER,
    MODES,
    NEQ,
    Forest,
    Leaves,
    Nodes,
    forest,
    joined,
)
from nnjit_studio.compiler.importer.onnx.ml.scores import transformed
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.tvm_adapter.trees import TREE_OP

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def ensemble(r: Rewriter) -> None:
    """Of ai.onnx.ml 5."""
    nodes, roots = _inner(r), _whole(r, "tree_roots")
    ends = np.flatnonzero(nodes.modes == LEAF)
    leaves = Leaves(ends, _whole(r, "leaf_targetids"), _numbers(r, "leaf_weights"))
    if ((roots < 0) | (roots >= ends.min(initial=len(nodes.modes)))).any():
        raise r.refuse("nodes that lead to others")
    # A tree of a leaf alone is written as a node whose both ways lead to it.
    roots = np.where(nodes.yes[roots] == nodes.no[roots], nodes.yes[roots], roots)
    targets = r.attribute("n_targets", 1)
    made = forest(roots, nodes, leaves, targets, r.refuse)
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
    number = {name.encode(): i for i, name in enumerate((*MODES, "LEAF"))}
    names = r.attribute("nodes_modes", [])
    modes = np.fromiter(map(number.get, names, repeat(-1)), np.int64, len(names))
    trees, own = _whole(r, "nodes_treeids"), _whole(r, "nodes_nodeids")
    if max(abs(ids).max(initial=0) for ids in (trees, own)) >= 2**31:
        raise r.refuse("trees and nodes that are numbered in 32 bits")
    find, ends = _places(trees, own), modes == LEAF
    here = np.arange(len(modes))
    yes, no = (
        np.where(ends, here, find(trees, _whole(r, f"nodes_{side}nodeids")))
        for side in ("true", "false")
    )
    if min(modes.min(initial=0), yes.min(initial=0), no.min(initial=0)) < 0:
        raise r.refuse("nodes that lead to others, by modes that are known")
    limits, nan = _numbers(r, "nodes_values"), _of_nan(r, modes, yes, no)
    single = [[float(limit)] for limit in limits[modes == MEMBER]]
    nodes = Nodes(_whole(r, "nodes_featureids"), modes, limits, yes, no, nan, single)
    at = find(*(_whole(r, f"{what}_{n}") for n in ("treeids", "nodeids")))
    leaves = Leaves(at, _whole(r, f"{what}_ids"), _numbers(r, f"{what}_weights"))
    inside = np.zeros(len(modes), bool)
    inside[yes[~ends]] = inside[no[~ends]] = True
    made = forest(here[~inside], nodes, leaves, targets, r.refuse)
    # ONNX Runtime begins at the first node of a tree, and leaves out what it does not reach.
    if not np.array_equal(here[~inside], np.flatnonzero(np.diff(trees, prepend=~trees[:1]))):
        raise r.refuse("of each tree one root, ahead of its other nodes")
    return made


def _places(trees: Any, nodes: Any) -> Callable[[Any, Any], Any]:
    """Where in the file nodes stand, by tree and number; -1 for one that is not there."""
    many = int(max(nodes.max(initial=0), 0)) + 1

    def keys(trees: Any, nodes: Any) -> Any:
        """One number for both."""
        inside = (nodes >= 0) & (nodes < many)
        return np.where(inside, trees * many + nodes, -1)

    own = keys(trees, nodes)
    order = np.argsort(own, kind="stable")

    def find(trees: Any, nodes: Any) -> Any:
        asked = keys(trees, nodes)
        at = np.minimum(np.searchsorted(own, asked, sorter=order), len(own) - 1)
        return np.where(own[order[at]] == asked, order[at], -1)

    return find


def _inner(r: Rewriter) -> Nodes:
    """Nodes by their numbers, and the leaves behind them."""
    modes, features = _numbers(r, "nodes_modes").astype(np.int64), _whole(r, "nodes_featureids")
    if ((modes < 0) | (modes >= LEAF)).any():
        raise r.refuse("modes that are known")
    count, leaves = len(features), len(_whole(r, "leaf_targetids"))
    ends = np.arange(count, count + leaves)
    ways = []
    for side in ("true", "false"):
        way, leaf = (_whole(r, f"nodes_{side}{what}") for what in ("nodeids", "leafs"))
        if ((way < 0) | (way >= np.where(leaf, leaves, count))).any():
            raise r.refuse("nodes that lead to others")
        ways.append(way + leaf * count)
    yes, no = ways
    columns = (features, modes, _numbers(r, "nodes_splits"), yes, no, _of_nan(r, modes, yes, no))
    members = list(_sets(_numbers(r, "membership_values")))
    nothing = np.zeros(leaves)
    behind = (nothing.astype(int), nothing.astype(int) + LEAF, nothing, ends, ends, ends)
    return replace(joined(columns, behind), members=members)


def _sets(values: Any) -> Any:
    """The sets of the nodes that ask for members, one after the other, NaN between them."""
    found: list[float] = []
    for value in values:
        if np.isnan(value):
            yield found
            found = []
        else:
            found.append(float(value))


def _of_nan(r: Rewriter, modes: Any, yes: Any, no: Any) -> Any:
    """NaN is in no order, and not equal to anything; files may say otherwise."""
    missing = _whole(r, "nodes_missing_value_tracks_true")
    return np.where((modes == NEQ) | (missing if len(missing) else False), yes, no)


def _whole(r: Rewriter, name: str) -> Any:
    """An attribute of whole numbers."""
    return np.array(r.attribute(name, []), np.int64)


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
