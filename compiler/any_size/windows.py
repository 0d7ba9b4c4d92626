"""Windows that slide over maps and signals: ONNX Runtime answers where one is larger than its map,
with one place too many; such sizes count as sizes that do not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

_SLIDING = ("MaxPool", "AveragePool", "LpPool", "Conv")


@dataclass(frozen=True)
class Window:
    """The smallest extents of a tensor's last axes that a window fits in."""

    tensor: str
    least: tuple[int, ...]

    def fits(self, shape: tuple[int, ...]) -> bool:
        held = shape[len(shape) - len(self.least) :]
        return all(n >= least for n, least in zip(held, self.least, strict=True))


Shapes = Mapping[str, tuple[int, ...]]
"""By tensor."""


class Place(NamedTuple):
    """What a window makes of an extent ``n`` of a tensor: ``(n + shift) // stride``."""

    axis: int
    shift: int
    stride: int
    extent: int
    """The window's own."""


@dataclass(frozen=True)
class Slide:
    """What a window makes of the extents of a tensor, along axes that its result has too."""

    tensor: str
    result: str
    places: tuple[Place, ...]

    def has_few(self, here: Shapes, there: Shapes, count: int) -> bool:
        """Whether a stride leaves fewer places, along an axis that is longer in other shapes."""
        if not {self.tensor, self.result} <= here.keys() & there.keys():
            return False
        pairs = [(p.axis, here[self.result][p.axis]) for p in self.places if p.stride > 1]
        changed = zip(here[self.tensor], there[self.tensor], strict=True)
        moves = [a != b for a, b in changed]
        return any(moves[axis] and n < count for axis, n in pairs)


def kernels(graph: onnx.GraphProto) -> list[str]:
    """Weights of convolutions that nodes compute, and whose shapes the file does not tell."""
    held = {t.name for t in graph.initializer}
    return [n.input[1] for n in graph.node if n.op_type == "Conv" and n.input[1] not in held]


def windows(graph: onnx.GraphProto, computed: Shapes = MappingProxyType({})) -> tuple[Window, ...]:
    """Of all nodes whose window and the padding around it are known, with the shapes of computed
    weights."""
    told = ((node, given) for node, given in _sliding(graph, computed) if not _padded(given))
    made = [Window(node.input[0], _least(given)) for node, given in told]
    return tuple(window for window in made if max(window.least) > 1)


def slides(graph: onnx.GraphProto, computed: Shapes) -> tuple[Slide, ...]:
    """Of all nodes whose window is known, in order of execution."""
    found = {n.output[0]: _places(given) for n, given in _sliding(graph, computed)}
    given = _constants(graph)
    for node in graph.node:
        _, step, window, length = [*node.input, *[""] * 4][:4]
        if node.op_type == "STFT" and step in given and not {window, length}.isdisjoint(given):
            own = len(given[window]) if window in given else int(given[length].item())
            by = int(given[step].item())
            found[node.output[0]] = (Place(1, by - own, by, own),)
    made = ((n, found[n.output[0]]) for n in graph.node if n.output[0] in found)
    return tuple(Slide(node.input[0], node.output[0], places) for node, places in made)


class Division(NamedTuple):
    """What is divided by a whole number that the file has, and what comes of it."""

    tensor: str
    result: str
    by: int
    leaves: bool
    """Whether the result is what is left over, and not the quotient."""

    def quotient(self, n: int, result: int) -> int:
        return (n - result) // self.by if self.leaves else result


def divisions(graph: onnx.GraphProto) -> tuple[Division, ...]:
    """All of a graph."""
    given = _constants(graph)
    known = {n: a.item() for n, a in given.items() if a.size == 1 and a.dtype.kind == "i"}
    both = {"Div": False, "Mod": True}
    nodes = [n for n in graph.node if n.op_type in both and known.get(n.input[1], 1) > 1]
    return tuple(
        Division(n.input[0], n.output[0], known[n.input[1]], both[n.op_type]) for n in nodes
    )


def _constants(graph: onnx.GraphProto) -> dict[str, NDArray[Any]]:
    """Small numbers and windows that the file holds."""
    held = {t.name: numpy_helper.to_array(t) for t in graph.initializer if len(t.dims) < 2}
    for node in graph.node:
        if node.op_type == "Constant":
            value = onnx.helper.get_attribute_value(node.attribute[0])
            tensor = isinstance(value, onnx.TensorProto)
            held[node.output[0]] = numpy_helper.to_array(value) if tensor else np.array(value)
    return held


def _sliding(
    graph: onnx.GraphProto, computed: Shapes
) -> Iterator[tuple[onnx.NodeProto, dict[str, Any]]]:
    """Nodes with a window, with their attributes."""
    weights = {t.name: list(t.dims[2:]) for t in graph.initializer}
    weights |= {name: list(shape[2:]) for name, shape in computed.items()}
    for node in graph.node:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Conv" and node.input[1] in weights:
            given.setdefault("kernel_shape", weights[node.input[1]])
        if node.op_type in _SLIDING and given.get("kernel_shape"):
            yield node, given


def _padded(given: Mapping[str, Any]) -> bool:
    """Whether the padding follows from the map: then every window fits."""
    return given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")


def _places(given: Mapping[str, Any]) -> tuple[Place, ...]:
    """Along the last axes."""
    strides = given.get("strides") or [1] * len(given["kernel_shape"])
    up = int(bool(given.get("ceil_mode", 0)))
    shifts = (
        stride - 1 if _padded(given) else stride - least + up * (stride - 1)
        for least, stride in zip(_extents(given), strides, strict=True)
    )
    return tuple(map(Place, range(-len(strides), 0), shifts, strides, _spread(given)))


def _least(given: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(max(1, n) for n in _extents(given))


def _extents(given: Mapping[str, Any]) -> list[int]:
    """The window's, without the padding around it."""
    whole = _spread(given)
    pads = given.get("pads") or [0] * (2 * len(whole))
    around = [a + b for a, b in zip(pads, pads[len(whole) :], strict=False)]
    return [n - p for n, p in zip(whole, around, strict=True)]


def _spread(given: Mapping[str, Any]) -> list[int]:
    kernel = given["kernel_shape"]
    spread = given.get("dilations") or [1] * len(kernel)
    return [(k - 1) * d + 1 for k, d in zip(kernel, spread, strict=True)]
