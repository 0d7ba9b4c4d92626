"""Which layer of a derived file errs most: each on what the original feeds it.

Errors that a layer got from those before it are not its own, and the last layer would be named
for all of them otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nnjit_studio.compiler.derived.lifted import lifted
from nnjit_studio.compiler.derived.quantise import WEIGHTED
from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference, part_of, run_part
from nnjit_studio.errors import UserError
from nnjit_studio.model.recipe import LayerError

GROUP = 16
"""Layers whose tensors are held at once."""
PART = 1 << 20
"""Elements that are compared at once: outputs may be as large as a process has room for."""
MOST = 400
"""Layers of a larger model are looked at evenly spread."""

Layer = tuple[str, str, str]
"""Name of a node, the tensor that it reads, the one that it writes."""


def worst_layer(path: Path, other: Path, feeds: Mapping[str, NDArray[Any]]) -> LayerError:
    """The layer with weights that errs most in the other file.

    Raises
    ------
    UserError
        When ONNX Runtime cannot run one of both, or they have no layer in common.
    """
    original, derived = OnnxReference(path), check.load_model(other)
    written = {name for node in derived.graph.node for name in node.output}
    layers = [each for each in _layers(lifted(check.load_model(path))) if each[2] in written]
    layers = layers[:: -(-len(layers) // MOST) or 1]
    found = [
        (error, name)
        for group in _groups(layers)
        for name, error in _errors(original, derived, group, feeds)
    ]
    if not found:
        raise UserError("The files have no layer in common.")
    error, name = max(found)
    return LayerError(name, error, len(found))


def _layers(model: onnx.ModelProto) -> Iterator[Layer]:
    weights = {w.name for w in model.graph.initializer}
    for node in model.graph.node:
        moving = [i for i in node.input if i and i not in weights]
        if node.op_type in WEIGHTED and len(moving) == 1 and set(node.input) & weights:
            yield check.node_name(node), moving[0], node.output[0]


def _groups(layers: Sequence[Layer]) -> Iterator[Sequence[Layer]]:
    for at in range(0, len(layers), GROUP):
        yield layers[at : at + GROUP]


def _errors(
    original: OnnxReference,
    derived: onnx.ModelProto,
    group: Sequence[Layer],
    feeds: Mapping[str, NDArray[Any]],
) -> Iterator[tuple[str, float]]:
    names = {name for _, *pair in group for name in pair if name in original.tensors}
    held = {**feeds, **original.run(feeds, sorted(names))}
    for name, read, wrote in group:
        if read not in held:
            continue
        part = part_of(derived, {read: held[read]}, [wrote])
        got = run_part(part, {read: held[read]}, [wrote])[wrote]
        if got.shape == held[wrote].shape:
            yield name, relative_error(got, held[wrote])


def relative_error(got: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference over the largest expected value, in float64; NaN where either has one
    or their shapes differ."""
    if got.shape != expected.shape:
        return float("nan")
    low, high = (float(f(expected, initial=0)) for f in (np.min, np.max))
    flat = got.reshape(-1), expected.reshape(-1)
    parts = ([a[i : i + PART] for a in flat] for i in range(0, got.size, PART))
    apart = [np.abs(np.subtract(*both, dtype=np.float64)).max() for both in parts]
    return float(np.max(apart, initial=0.0)) / (max(high, -low) or 1.0)
