"""Operators of windows over an image, as convolutions."""

from __future__ import annotations

import numpy as np
from onnx import helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.importer.onnx.transposed_conv import conv_transpose


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
