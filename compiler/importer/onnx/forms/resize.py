"""Forms of Resize that the importer's converter takes wrongly or not at all.

It has the ratio of the sizes in place of a scale, and resizes images alone, channels first. Here
each axis is resized for itself: an element is a sum of elements at constant places, times constant
weights (ONNX, Resize; ONNX Runtime where the two differ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.tvm_adapter.open_sizes.nearest import NEAREST_OP, ORIGINS

Array = NDArray[Any]
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_REACH = {"linear": 1, "cubic": 2}
"""Elements on each side that have a weight."""
_TIE = 1e-6
"""ONNX Runtime takes a place for one between two elements that is so near to it."""
_OTHERS = ("tf_crop_and_resize",)


@dataclass(frozen=True)
class _Axis:
    """From ``n`` elements to ``out``, by ``scale``, which need not be their ratio."""

    n: int
    out: int
    scale: np.float32


def resize(r: Rewriter) -> bool:
    """Where scales give no whole sizes, with smoothing, or along other axes than images have."""
    for i, name in enumerate(r.node.input):
        if i and name in r.constants and not r.constants[name].size:
            r.node.input[i] = ""  # in opset 11 an input that is left out may be an empty tensor
    x, axes = r.node.input[0], _axes(r)
    mode = r.attribute("mode", b"nearest").decode()
    how = _coordinates(r)
    if axes is None or how in _OTHERS or (mode != "nearest" and r.dtype(x) not in _FLOATS):
        return False
    if mode == "nearest" and _is_open(r, axes, how):
        # A scale of 1 may be that of this import alone: images are resized in height and width.
        resized = [d for d, a in enumerate(axes) if d > 1 or a.out != a.n]
        r.op(
            NEAREST_OP, x, out=r.node.output[0], sizes=[a.out for a in axes], axes=resized,
            scales=[float(axes[d].scale) for d in resized], how=how, mode=_nearest_mode(r),
        )  # fmt: skip
        return True
    near = mode == "nearest" and not r.open_sizes and not all(_is_whole(how, a) for a in axes)
    if all(_is_ratio(a) for a in axes) and not (near or _is_special(r, axes, how)):
        return False
    changed = [d for d, a in enumerate(axes) if a.out != a.n or not _is_ratio(a)]
    for d in changed:
        places, weights = _nearest(r, how, axes[d]) if mode == "nearest" else _taps(r, how, axes[d])
        x = _sum_of_places(r, x, d, len(axes), places, weights)
    r.op("Identity", x, out=r.node.output[0])
    return True


def _is_open(r: Rewriter, axes: list[_Axis], how: str) -> bool:
    """Whether places follow from sizes, or are rounded: whole scales, if given, round nothing."""
    given = not any(r.node.input[3:])
    whole = given and all(float(a.scale).is_integer() for a in axes)
    if not r.open_sizes or r.opset < 11 or how not in ORIGINS or whole:
        return False
    if how == "tf_half_pixel_for_nn" and _nearest_mode(r).endswith("ceil"):
        # At a scale of 1 ONNX Runtime moves nothing, where the place above i + 0.5 is another.
        raise r.refuse("another rounding than upwards at open sizes")
    return True


def upsample(r: Rewriter) -> bool:
    """Of the opsets before Resize."""
    x = r.node.input[0]
    if len(r.node.input) < 2:
        r.node.input.append(r.weight(r.attribute("scales", []), np.float32))
        r.constants = {**r.constants, r.node.input[1]: np.float32(r.attribute("scales", []))}
    scales = r.constant(1, "list of scales")
    if r.attribute("mode", b"nearest") != b"nearest" or any(s != int(s) for s in scales):
        return resize(r)
    # As reshapes and a broadcast: Resize is younger than the opsets that have Upsample.
    shape = r.shape(x)
    apart = [n for extent in shape for n in (extent, 1)]
    repeated = [n for pair in zip(shape, scales, strict=True) for n in pair]
    whole = [extent * int(scale) for extent, scale in zip(shape, scales, strict=True)]
    x = r.op("Reshape", x, r.weight(apart, np.int64))
    x = r.op("Expand", x, r.weight(repeated, np.int64))
    r.op("Reshape", x, r.weight(whole, np.int64), out=r.node.output[0])
    return True


def _coordinates(r: Rewriter) -> str:
    default = b"half_pixel" if r.opset > 10 else b"asymmetric"
    how: str = r.attribute("coordinate_transformation_mode", default).decode()
    return how


def _is_ratio(axis: _Axis) -> bool:
    return bool(axis.n * float(axis.scale) == axis.out) or bool(
        np.float32(axis.out / axis.n) == axis.scale
    )


def _is_whole(how: str, axis: _Axis) -> bool:
    """Whether a rounding of places changes no nearest element: a kernel may compute them itself."""
    n, out = axis.n, axis.out
    return out == n or (how != "align_corners" and (out % n == 0 or n % out == 0))


def _is_special(r: Rewriter, axes: list[_Axis], how: str) -> bool:
    others = any(a.out != a.n for a in axes[:2]) or len(axes) not in (3, 4, 5)
    named = r.attribute("axes", None) or r.attribute("antialias", 0)
    policy = r.attribute("keep_aspect_ratio_policy", b"stretch") != b"stretch"
    return bool(others or named or policy or how == "half_pixel_symmetric" or r.opset < 11)


def _axes(r: Rewriter) -> list[_Axis] | None:
    """Of each dimension; None where a size is not known."""
    x, *given = [*r.node.input, "", "", ""][:4]
    scales, sizes = given[1:] if r.opset > 10 else (given[0], "")
    shape = r.types.get(x, (0, None))[1]
    if not any(n in r.constants and r.constants[n].size for n in (scales, sizes)):
        raise r.refuse("scales or sizes that are known ahead")
    if shape is None:
        return None
    found = [_Axis(n, n, np.float32(1)) for n in shape]
    places = [d % len(shape) for d in r.attribute("axes", range(len(shape)))]
    if scales and r.constants[scales].size:
        for d, scale in zip(places, r.constants[scales].astype(np.float32), strict=True):
            found[d] = _Axis(shape[d], math.floor(shape[d] * scale), scale)
        return found
    wanted = {d: int(n) for d, n in zip(places, r.constants[sizes], strict=True)}
    policy = r.attribute("keep_aspect_ratio_policy", b"stretch")
    ratios = [n / shape[d] for d, n in wanted.items()]
    common = min(ratios) if policy == b"not_larger" else max(ratios)
    for d, n in wanted.items():
        if policy == b"stretch":
            found[d] = _Axis(shape[d], n, np.float32(n / shape[d]))
        else:
            out = math.floor(common * shape[d] + 0.5)
            found[d] = _Axis(shape[d], out, np.float32(common))
    return found


def _origin(how: str, a: _Axis) -> Array:
    """Where each result lies among the elements it is made from."""
    i, half = np.arange(a.out, dtype=np.float32), np.float32(0.5)
    shift = np.float32(0)
    if how == "half_pixel_symmetric":
        shift = np.float32(a.n) / 2 * (1 - np.float32(a.out) / (a.scale * np.float32(a.n)))
    x: Array = shift + (i + half) / a.scale - half
    if how == "asymmetric":
        x = i / a.scale
    elif how == "align_corners":
        x = i * np.float32(a.n - 1) / np.float32(max(a.out - 1, 1))
    elif how == "tf_half_pixel_for_nn":
        x = (i + half) / a.scale
    elif how == "pytorch_half_pixel" and a.out == 1:
        x = i
    return x


def _nearest(r: Rewriter, how: str, a: _Axis) -> tuple[Array, None]:
    """As ONNX Runtime, whose place is rounded to float32 before its neighbour is chosen."""
    x = _origin(how, a)
    mode = ("ceil" if a.scale < 1 else "floor") if r.opset < 11 else _nearest_mode(r)
    below = np.floor(x)
    tie, nearer = np.abs(x - below - 0.5) < _TIE, np.floor(x.astype(np.float64) + 0.5)
    found = {
        "round_prefer_floor": np.where(tie, below, nearer),
        "round_prefer_ceil": np.where(tie, below + 1, nearer),
        "floor": below,
        "ceil": np.ceil(x),
    }[mode]
    return np.clip(found, 0, a.n - 1).astype(np.int64)[:, None], None


def _nearest_mode(r: Rewriter) -> str:
    mode: str = r.attribute("nearest_mode", b"round_prefer_floor").decode()
    return mode


def _taps(r: Rewriter, how: str, a: _Axis) -> tuple[Array, Array]:
    """Places and weights (results, taps)."""
    mode = r.attribute("mode", b"linear").decode()
    narrower = min(float(a.scale), 1.0) if r.attribute("antialias", 0) else 1.0
    reach = math.ceil(_REACH[mode] / narrower)
    x = _origin(how, a).astype(np.float64)
    places = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.abs(places - x[:, None]) * narrower
    weights = np.clip(1 - distance, 0, None)
    if mode == "cubic":
        weights = _cubic(distance, r.attribute("cubic_coeff_a", -0.75))
    if r.attribute("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= a.n), 0, weights)
    weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, a.n - 1), weights


def _cubic(d: Array, a: float) -> Array:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _sum_of_places(
    r: Rewriter, x: str, axis: int, rank: int, places: Array, weights: Array | None
) -> str:
    if weights is None:
        return r.op("Gather", x, r.weight(places[:, 0], np.int64), axis=axis)
    kept = np.flatnonzero(np.any(weights != 0, axis=0))
    total, wide = "", [-1 if d == axis else 1 for d in range(rank)]
    kind = np.float16 if r.dtype(r.node.input[0]) == TensorProto.FLOAT16 else np.float32
    for t in kept:
        part = r.op("Gather", x, r.weight(places[:, t], np.int64), axis=axis)
        part = r.op("Mul", part, r.weight(weights[:, t].reshape(wide), kind))
        total = r.op("Add", total, part) if total else part
    return total
