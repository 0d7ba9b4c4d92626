"""Numbers that follow from how many results an operator found: shapes of tensors, as exporters
compute with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from nnjit_studio.compiler.importer.onnx.walk import Array, Walk

_MOVED = dict.fromkeys(
    ("Cast", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"), (0,)
) | {"Add": (0, 1), "Sub": (0, 1), "Where": (1, 2)}
"""Operators that are linear in the inputs at these places, whatever the others are."""


@dataclass(frozen=True)
class Linear:
    """``none + each * count``, element by element; ``count`` names an i64 tensor of one element."""

    none: Array
    each: Array
    count: str

    def at(self, count: int) -> Array:
        """The numbers where so many are found."""
        return np.asarray(self.none + self.each * count)


def linear_result(
    w: Walk, node: onnx.NodeProto, known: Mapping[str, Linear], most: int
) -> Linear | Array | None:
    """What a node makes of such numbers: others, numbers that are known, or None where it is
    neither.

    Parameters
    ----------
    known
        By name; all of one count.
    most
        The largest number that may be found.
    """
    (count,) = {known[n].count for n in node.input if n in known}
    if any(n and n not in known and n not in w.values for n in node.input):
        return None
    if node.op_type == "Equal":
        one, other = (_whole(w, n, known, count) for n in node.input)
        return _equal(one, other, most)
    if node.op_type == "Concat":
        moved: tuple[int, ...] = tuple(range(len(node.input)))
    elif node.op_type == "Mul":
        moved = tuple(i for i, n in enumerate(node.input) if n in known)
        if len(moved) > 1:
            return None
    else:
        moved = _MOVED.get(node.op_type, ())
    if any(n in known and i not in moved for i, n in enumerate(node.input)):
        return None
    parts = []
    for which in ("none", "each"):
        feeds = {n: w.values[n] for n in node.input if n in w.values}
        for i in moved:
            feeds[node.input[i]] = getattr(_whole(w, node.input[i], known, count), which)
        parts.append(w.results(node, feeds).get(node.output[0]))
    none, each = parts
    if none is None or each is None or none.dtype not in (np.int64, np.int32):
        return None  # a Cast to or from a float or a bool is not linear
    return Linear(none, each, count) if np.any(each) else none


def _whole(w: Walk, name: str, known: Mapping[str, Linear], count: str) -> Linear:
    if name in known:
        return known[name]
    return Linear(w.values[name], np.zeros_like(w.values[name]), count)


def _equal(one: Linear, other: Linear, most: int) -> Array | None:
    """Where the answer is one for all that may be found."""
    first = one.none - other.none
    last = first + (one.each - other.each) * most
    same, apart = (first == 0) & (last == 0), first * last > 0
    return np.asarray(same) if np.all(same | apart) else None
