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


@dataclass(frozen=True)
class Slide:
    """What a window makes of the extents ``n`` of a tensor's last axes: ``(n + shift) // stride``
    for each of the axes, which have the shift, the stride, and the window's own extent."""

    tensor: str
    result: str
    axes: tuple[tuple[int, int, int], ...]


def windows(graph: onnx.GraphProto) -> tuple[Window, ...]:
    """Of all nodes whose window and the padding around it are known."""
    told = ((node, given) for node, given in _sliding(graph) if not _padded(given))
    made = [Window(node.input[0], _least(given)) for node, given in told]
    return tuple(window for window in made if max(window.least) > 1)


def slides(graph: onnx.GraphProto) -> tuple[Slide, ...]:
    """Of all nodes whose window is known, in order of execution."""
    return tuple(Slide(node.input[0], node.output[0], _axes(g)) for node, g in _sliding(graph))


def _sliding(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, dict[str, Any]]]:
    """Nodes with a window, with their attributes."""
    weights = {t.name: list(t.dims[2:]) for t in graph.initializer}
    for node in graph.node:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Conv" and node.input[1] in weights:
            given.setdefault("kernel_shape", weights[node.input[1]])
        if node.op_type in _SLIDING and given.get("kernel_shape"):
            yield node, given


def _padded(given: Mapping[str, Any]) -> bool:
    """Whether the padding follows from the map: then every window fits."""
    return given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")


def _axes(given: Mapping[str, Any]) -> tuple[tuple[int, int, int], ...]:
    strides = given.get("strides") or [1] * len(given["kernel_shape"])
    up = int(bool(given.get("ceil_mode", 0)))
    shifts = (
        stride - 1 if _padded(given) else stride - least + up * (stride - 1)
        for least, stride in zip(_extents(given), strides, strict=True)
    )
    return tuple(zip(shifts, strides, _spread(given), strict=True))


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
