"""Two dequantised operands of a node, as the integers that a kernel can take instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


@dataclass(frozen=True)
class IntegerPair:
    """Integers with one scale, and constant ones with one scale or one along an axis."""

    operands: tuple[str, str, str, str]
    """Both tensors, then their zero points, empty where there is none."""
    weight: NDArray[Any]
    """The constant one."""
    factor: NDArray[np.float32]
    """Product of the scales, in the shape of the constant one's."""
    axis: int
    """Of the constant one's scales, as the file gives it."""

    def scaled_along(self, axis: int) -> bool:
        """Whether there is one scale, or one for each place of that axis."""
        places = self.weight.shape[axis : axis + 1]
        each = self.factor.shape == places and self.axis % self.weight.ndim == axis
        return self.factor.size == 1 or each


def constant_bytes(r: Rewriter, name: str) -> NDArray[Any] | None:
    """A constant, or the transposition of one."""
    return r.constants[r.turned[name]].T if name in r.turned else r.constants.get(name)


def integer_pair(r: Rewriter) -> IntegerPair | None:
    """Of the node's first two inputs; None where they are not dequantised so."""
    first, second = (r.dequantised.get(name) for name in r.node.input[:2])
    if first is None or second is None:
        return None
    a, a_scale, a_zero = [*first.input, ""][:3]
    b, b_scale, b_zero = [*second.input, ""][:3]
    weight, scales = constant_bytes(r, b), (r.constants.get(a_scale), r.constants.get(b_scale))
    if weight is None or scales[0] is None or scales[1] is None or scales[0].size != 1:
        return None
    if any(name and name not in r.constants for name in (a_zero, b_zero)):
        return None
    axis = next((int(given.i) for given in second.attribute if given.name == "axis"), 1)
    factor = scales[0].astype(np.float32).reshape(()) * scales[1].astype(np.float32)
    return IntegerPair((a, b, a_zero, b_zero), weight, factor, axis)
