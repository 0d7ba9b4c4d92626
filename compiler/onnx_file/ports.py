"""Inputs and outputs of a file: what it says of their dimensions."""

from __future__ import annotations

import onnx

_NAMELESS = ("", "?", "-1", "0", "None", "unk")
"""What exporters write as the name of a dimension that they know nothing of."""


def dims_of(port: onnx.ValueInfoProto) -> list[int | str]:
    """A number or a name for each dimension.

    What has no name, or one that stands for "unknown", gets its place for a name (``x.2``):
    two of these are never the same dimension.
    """
    dims: list[int | str] = []
    for axis, d in enumerate(port.type.tensor_type.shape.dim):
        name = d.dim_param.strip()
        if d.dim_value > 0:
            dims.append(int(d.dim_value))
        elif name.isdecimal() and int(name):  # some exporters write a number as a name
            dims.append(int(name))
        else:
            dims.append(f"{port.name}.{axis}" if name in _NAMELESS else name)
    return dims
