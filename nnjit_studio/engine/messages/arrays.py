"""NumPy arrays as blobs of a frame, checked against what a plan expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import PageError, UserError
from nnjit_studio.model import NUMPY_DTYPES, PlanPort, TensorSpec


def feeds_to_blobs(
    specs: Sequence[TensorSpec], feeds: Mapping[str, NDArray[Any]]
) -> tuple[list[dict[str, Any]], list[memoryview]]:
    """Descriptions and bytes of a model's inputs, in the model's order.

    Raises
    ------
    UserError
        When an input is missing, unknown, or of another shape or dtype.
    """
    names = [spec.name for spec in specs]
    unknown = sorted(set(feeds) - set(names))
    if unknown:
        raise UserError(
            f"The model has no input {unknown[0]!r}.", f"Its inputs are {', '.join(names)}."
        )
    described, blobs = [], []
    for spec in specs:
        if spec.name not in feeds:
            raise UserError(
                f"The input {spec.name!r} is missing.", f"Give it as {_expected(spec)}."
            )
        array = np.asarray(feeds[spec.name])
        dtype = NUMPY_DTYPES[spec.dtype]
        if array.dtype.newbyteorder("=") != dtype.newbyteorder("=") or array.shape != spec.shape:
            raise UserError(
                f"The input {spec.name!r} must be {_expected(spec)}, "
                f"not {array.dtype} {_shape(array.shape)}.",
                "Convert or reshape it.",
            )
        described.append({"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)})
        blobs.append(array_bytes(array.astype(dtype, copy=False)))
    return described, blobs


def blobs_to_outputs(
    ports: Sequence[PlanPort], described: Sequence[Mapping[str, Any]], blobs: Sequence[memoryview]
) -> dict[str, NDArray[Any]]:
    """The model's outputs by name, as arrays of their own; a found axis is as long as it is.

    Raises
    ------
    PageError
        When the page sent other outputs than the plan has.
    """
    got = [(d.get("name"), d.get("shape"), d.get("dtype")) for d in described]
    specs = [_sent(port, d) for port, d in zip(ports, described, strict=False)]
    wanted = [(spec.name, list(spec.shape), spec.dtype) for spec in specs]
    sizes = [spec.nbytes for spec in specs]
    if len(got) != len(ports) or got != wanted or [blob.nbytes for blob in blobs] != sizes:
        raise PageError(
            f"The page sent other outputs than the plan has: {got}.", "Load the model again."
        )
    return {
        spec.name: np.frombuffer(blob, NUMPY_DTYPES[spec.dtype]).reshape(spec.shape).copy()
        for spec, blob in zip(specs, blobs, strict=True)
    }


def _sent(port: PlanPort, described: Mapping[str, Any]) -> TensorSpec:
    """What an output should be, of a found axis so much as there is room for."""
    shape = described.get("shape")
    if not port.found or not isinstance(shape, list) or len(shape) != len(port.spec.shape):
        return port.spec
    found = shape[port.found.axis]
    return port.cut(found) if isinstance(found, int) and found >= 0 else port.spec


def array_bytes(array: NDArray[Any]) -> memoryview:
    """The array's bytes, row-major."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _expected(spec: TensorSpec) -> str:
    return f"{NUMPY_DTYPES[spec.dtype].name} {_shape(spec.shape)}"


def _shape(shape: Sequence[int]) -> str:
    return "of shape " + ("x".join(map(str, shape)) if shape else "() (a scalar)")
