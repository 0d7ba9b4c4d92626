"""Operators of windows over an image, as convolutions or reads of its pixels."""

from __future__ import annotations

from itertools import product

import numpy as np
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.importer.onnx.transposed_conv import conv_transpose

_WIDE = 8
"""Taps of a window; those of narrow ones are loops of their own."""


def signal_conv(r: Rewriter) -> bool:
    """A wide window that strides along a padded signal, whose size is open: padded before. Where
    the padding is part of the window's loops, these end in other ways at each remainder of the
    stride."""
    x, weight = r.node.input[:2]
    pads, strides = r.attribute("pads", []), r.attribute("strides", [])
    if not r.open_sizes or r.opset < 11 or not any(pads) or max(strides, default=1) == 1:
        return False
    own = r.shape(weight)[2:]
    if max(own) <= _WIDE or sum(n > 1 for n in own) > 1 or r.dtype(x) != TensorProto.FLOAT:
        return False
    before, after = pads[: len(own)], pads[len(own) :]
    r.node.input[0] = r.op("Pad", x, r.weight([0, 0, *before, 0, 0, *after], np.int64))
    kept = [a for a in r.node.attribute if a.name != "pads"]
    del r.node.attribute[:]
    r.node.attribute.extend(kept)
    return False


def col2im(r: Rewriter) -> bool:
    """Each column goes back to the places of its window: a transposed convolution whose weights
    put each of its numbers at a place of its own."""
    x, out = r.node.input[0], r.node.output[0]
    size = [int(n) for n in r.constant(1, "shape of the image")]
    block = [int(n) for n in r.constant(2, "shape of the block")]
    spatial = range(len(size))
    steps, dilations = (r.attribute(n, [1] * len(size)) for n in ("strides", "dilations"))
    pads = r.attribute("pads", [0] * 2 * len(size))
    room = [
        size[d] + pads[d] + pads[d + len(size)] - dilations[d] * (block[d] - 1) - 1 for d in spatial
    ]
    count = [room[d] // steps[d] + 1 for d in spatial]
    batch, rows, _ = r.shape(x)
    taps = int(np.prod(block))
    apart = r.op("Reshape", x, r.weight([batch, rows, *count], np.int64))
    places = np.tile(np.eye(taps, dtype=np.float32), (rows // taps, 1))
    kind = helper.tensor_dtype_to_np_dtype(r.dtype(x))
    held = r.weight(places.reshape(rows, 1, *block), kind)
    r.op(
        "ConvTranspose", apart, held, out=out, group=rows // taps, strides=steps, pads=pads,
        dilations=dilations, kernel_shape=block,
        output_padding=[room[d] % steps[d] for d in spatial],
    )  # fmt: skip
    r.node = r.nodes.pop()
    if not conv_transpose(r):
        r.nodes.append(r.node)
    return True


def deform_conv(r: Rewriter) -> bool:
    """Each tap of the kernel reads the image at places of its own, between which it is linear;
    the sum over taps is a convolution of 1x1."""
    x, weight, offset, bias, mask = [*r.node.input, "", ""][:5]
    (n, c, h, w), shape = r.shape(x), r.shape(weight)
    if len(shape) != 4:
        raise r.refuse("images")
    held = r.constant(1, "weight")
    taps, groups = shape[2] * shape[3], r.attribute("offset_group", 1)
    oh, ow = r.shape(offset)[2:]
    base = _places(r, shape[2:], (oh, ow))
    part = r.op("Reshape", offset, r.weight([n * groups, taps, 2, oh, ow], np.int64))
    at = r.op("Add", part, r.weight(base, np.float32))  # pixels, y and x
    # The sampler counts from -1 to 1, corner to corner, x first.
    ends = np.array([max(h - 1, 1), max(w - 1, 1)], np.float32).reshape(2, 1, 1)
    at = r.op("Sub", r.op("Mul", at, r.weight(2 / ends)), r.weight(1, np.float32))
    at = r.op("Transpose", at, perm=[0, 1, 3, 4, 2])
    at = r.op("Gather", at, r.weight([1, 0], np.int64), axis=4)
    grid = r.op("Reshape", at, r.weight([n * groups, taps * oh, ow, 2], np.int64))
    image = r.op("Reshape", x, r.weight([n * groups, c // groups, h, w], np.int64))
    mode = "bilinear" if r.opset < 20 else "linear"
    read = r.op("GridSample", image, grid, mode=mode, padding_mode="zeros", align_corners=1)
    wide = [n, groups, c // groups, taps, oh, ow]
    read = r.op("Reshape", read, r.weight(wide, np.int64))
    if mask:
        shares = r.weight([n, groups, 1, taps, oh, ow], np.int64)
        read = r.op("Mul", read, r.op("Reshape", mask, shares))
    columns = r.op("Reshape", read, r.weight([n, c * taps, oh, ow], np.int64))
    flat = r.weight(held.reshape(shape[0], shape[1] * taps, 1, 1))
    given = [columns, flat, *([bias] if bias else [])]
    r.op("Conv", *given, group=r.attribute("group", 1), out=r.node.output[0])
    return True


def roi_align(r: Rewriter) -> bool:
    """In mode max the largest of the weighted neighbours of all samples; the converter has sums."""
    if r.attribute("mode", b"avg") == b"avg":
        return False
    image, rois, batch = r.node.input
    n, c, h, w = r.shape(image)
    samples = r.attribute("sampling_ratio", 0)
    if not samples:
        raise r.refuse("in mode max a sampling_ratio: without, the data says how many samples are")
    half = r.attribute("coordinate_transformation_mode", b"half_pixel") == b"half_pixel"
    shift = 0.5 if half and r.opset >= 16 else 0.0
    scale = r.weight(r.attribute("spatial_scale", 1.0), np.float32)
    corners = r.op("Sub", r.op("Mul", rois, scale), r.weight(shift, np.float32))
    x0, y0, x1, y1 = r.split(corners, [1] * 4, 1)
    sizes = [r.attribute(f"output_{name}", 1) * samples for name in ("height", "width")]
    lines = []
    for first, last, count, limit in zip((y0, x0), (y1, x1), sizes, (h, w), strict=True):
        length = r.op("Sub", last, first)
        if not shift:
            length = r.op("Max", length, r.weight(1, np.float32))
        steps = r.weight((np.arange(count) + 0.5) / count, np.float32)
        lines.append(_neighbours(r, r.op("Add", first, r.op("Mul", length, steps)), limit))
    first = r.op("Mul", r.op("Cast", batch, to=TensorProto.INT64), r.weight(h * w, np.int64))
    first = r.along("Unsqueeze", first, [1, 2])
    pixels = r.op("Transpose", image, perm=[0, 2, 3, 1])
    pixels = r.op("Reshape", pixels, r.weight([n * h * w, c], np.int64))
    found = []
    for (y, y_share), (x, x_share) in product(*lines):
        row = r.op("Mul", r.along("Unsqueeze", y, [2]), r.weight(w, np.int64))
        at = r.op("Add", r.op("Add", first, row), r.along("Unsqueeze", x, [1]))
        shares = [r.along("Unsqueeze", y_share, [2, 3]), r.along("Unsqueeze", x_share, [1, 3])]
        read = r.op("Gather", pixels, at, axis=0)
        found.append(r.op("Mul", r.op("Mul", read, shares[0]), shares[1]))
    best = r.op("Max", *found)
    apart = [-1, sizes[0] // samples, samples, sizes[1] // samples, samples, c]
    best = r.op("Reshape", best, r.weight(apart, np.int64))
    best = r.along("ReduceMax", best, [2, 4], keepdims=0)
    r.op("Transpose", best, perm=[0, 3, 1, 2], out=r.node.output[0])
    return True


def _neighbours(r: Rewriter, at: str, limit: int) -> list[tuple[str, str]]:
    """The pixels on both sides of places on a line, and the share that each has."""
    low, high = r.weight(0, np.float32), r.weight(limit - 1, np.float32)
    before = r.op("Less", at, r.weight(-1, np.float32))
    outside = r.op("Or", before, r.op("Greater", at, r.weight(limit, np.float32)))
    there = r.op("Cast", r.op("Not", outside), to=TensorProto.FLOAT)
    at = r.op("Min", r.op("Max", at, low), high)
    floor = r.op("Floor", at)
    after = r.op("Sub", at, floor)
    before = r.op("Sub", r.weight(1, np.float32), after)
    second = r.op("Min", r.op("Add", floor, r.weight(1, np.float32)), high)
    return [
        (r.op("Cast", place, to=TensorProto.INT64), r.op("Mul", share, there))
        for place, share in ((floor, before), (second, after))
    ]


def _places(r: Rewriter, kernel: tuple[int, ...], size: tuple[int, ...]) -> np.ndarray:
    """Where each tap reads without an offset: (taps, 2, height, width), in pixels."""
    steps, dilations = (r.attribute(n, [1, 1]) for n in ("strides", "dilations"))
    pads = r.attribute("pads", [0] * 4)
    lines = [
        np.arange(kernel[d])[:, None] * dilations[d] + np.arange(size[d]) * steps[d] - pads[d]
        for d in range(2)
    ]
    taps = [(y, x) for y in range(kernel[0]) for x in range(kernel[1])]
    made = [np.meshgrid(lines[0][y], lines[1][x], indexing="ij") for y, x in taps]
    return np.stack([np.stack(pair) for pair in made])
