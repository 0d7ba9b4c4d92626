"""Windows that slide over maps: ONNX Runtime answers where one is larger than its map, with one
place too many; such sizes count as sizes that do not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


def windows(nodes: Iterable[onnx.NodeProto]) -> tuple[Window, ...]:
    """Of all nodes that tell the extents of their window and of the padding around it."""
    made = []
    for node in nodes:
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type in _SLIDING and "kernel_shape" in given and not _padded(given):
            made.append(Window(node.input[0], _least(given)))
    return tuple(window for window in made if max(window.least) > 1)


def _padded(given: Mapping[str, object]) -> bool:
    """Whether the padding follows from the map: then every window fits."""
    return given.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")


def _least(given: Mapping[str, list[int]]) -> tuple[int, ...]:
    kernel = given["kernel_shape"]
    spread = given.get("dilations") or [1] * len(kernel)
    pads = given.get("pads") or [0] * (2 * len(kernel))
    around = [a + b for a, b in zip(pads, pads[len(kernel) :], strict=False)]
    return tuple(
        max(1, (k - 1) * d + 1 - p) for k, d, p in zip(kernel, spread, around, strict=True)
    )
