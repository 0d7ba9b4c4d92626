"""Windows that slide over maps: ONNX Runtime answers where one is larger than its map, with one
place too many; such sizes count as sizes that do not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

_SLIDING = ("MaxPool", "AveragePool", "LpPool", "Conv")


@dataclass(frozen=True)
class Window:
    """The smallest extents of a tensor's last axes that a window fits in."""

    tensor: str
    least: tuple[int, ...]

    def fits(self, shape: tuple[int, ...]) -> bool:
        held = shape[len(shape) - len(self.least) :]
        return all(n >= least for n, least in zip(held, self.least, strict=True))


def windows(graph: onnx.GraphProto) -> tuple[Window, ...]:
    """Of all nodes whose window and the padding around it are known."""
    made = [Window(node.input[0], _least(given)) for node, given in _sliding(graph)]
    return tuple(window for window in made if max(window.least) > 1)


def places(graph: onnx.GraphProto) -> tuple[tuple[int, int], ...]:
    """What these windows make of an extent n: ``(n + shift) // stride`` for each of the pairs."""
    pairs = []
    for _, given in _sliding(graph):
        strides = given.get("strides") or [1] * len(given["kernel_shape"])
        up = int(bool(given.get("ceil_mode", 0)))
        pairs += [
            (stride - least + up * (stride - 1), stride)
            for least, stride in zip(_extents(given), strides, strict=True)
            if stride > 1
        ]
    return tuple(dict.fromkeys(pairs))


def _sliding(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, dict[str, Any]]]:
    """Nodes with a window whose padding is told, with their attributes."""
    weights = {t.name: list(t.dims[2:]) for t in graph.initializer}
    for node in graph.node:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Conv" and node.input[1] in weights:
            given.setdefault("kernel_shape", weights[node.input[1]])
        if node.op_type in _SLIDING and given.get("kernel_shape") and not _padded(given):
            yield node, given


def _padded(given: Mapping[str, Any]) -> bool:
    """Whether the padding follows from the map: then every window fits."""
    return given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")


def _least(given: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(max(1, n) for n in _extents(given))


def _extents(given: Mapping[str, Any]) -> list[int]:
    """The window's, without the padding around it."""
    kernel = given["kernel_shape"]
    spread = given.get("dilations") or [1] * len(kernel)
    pads = given.get("pads") or [0] * (2 * len(kernel))
    around = [a + b for a, b in zip(pads, pads[len(kernel) :], strict=False)]
    return [(k - 1) * d + 1 - p for k, d, p in zip(kernel, spread, around, strict=True)]
