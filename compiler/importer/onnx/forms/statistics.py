"""Normalisations by statistics at hand or with them as outputs, and masks of what is dropped."""

from __future__ import annotations

import math

import numpy as np

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


def layer_normalization(r: Rewriter) -> bool:
    """Its second and third output, where anybody reads them; the converter has the first alone."""
    x, out = r.node.input[0], r.node.output
    wanted = [name if r.read.get(name) else "" for name in (*out, "", "")[1:3]]
    if not any(wanted):
        return False
    rank = len(r.shape(x))
    axes = list(range(r.attribute("axis", -1) % rank, rank))
    variance = _moments(r, x, axes, wanted[0])[1]
    if wanted[1]:
        epsilon = r.weight(r.attribute("epsilon", 1e-5), np.float32)
        root = r.op("Sqrt", r.op("Add", variance, epsilon))
        r.op("Reciprocal", root, out=wanted[1])
    del out[1:]
    return False


def batch_normalization(r: Rewriter) -> bool:
    """By the statistics of the batch at hand, as a model exported in training mode has it."""
    if not r.attribute("training_mode", 0):
        return False
    x, scale, bias, *running = r.node.input
    shape = r.shape(x)
    wide = r.weight([-1 if d == 1 else 1 for d in range(len(shape))], np.int64)
    mean, variance = _moments(r, x, [d for d in range(len(shape)) if d != 1])
    epsilon = r.weight(r.attribute("epsilon", 1e-5), np.float32)
    root = r.op("Sqrt", r.op("Add", variance, epsilon))
    normal = r.op("Div", r.op("Sub", x, mean), root)
    scaled = r.op("Mul", normal, r.op("Reshape", scale, wide))
    r.op("Add", scaled, r.op("Reshape", bias, wide), out=r.node.output[0])
    share = r.attribute("momentum", 0.9)
    kept, taken = r.weight(share, np.float32), r.weight(1 - share, np.float32)
    flat = r.weight([-1], np.int64)
    for name, old, new in zip(r.node.output[1:], running, (mean, variance), strict=False):
        if name:
            new = r.op("Mul", r.op("Reshape", new, flat), taken)
            r.op("Add", r.op("Mul", old, kept), new, out=name)
    return True


def dropout(r: Rewriter) -> bool:
    """Nothing is dropped: a mask says so of each element."""
    _, ratio, training = [*r.node.input, "", ""][:3]
    if training and r.constant(2, "training mode").any():
        share = r.constant(1, "ratio") if ratio else np.array(0.5)
        if share.any():
            raise r.refuse("to be exported for inference: what is dropped in training is random")
    if len(r.node.output) < 2 or not r.read.get(r.node.output[1]):
        return False
    x, (out, mask) = r.node.input[0], r.node.output
    r.op("Identity", x, out=out)
    r.op("Or", r.op("Equal", x, x), r.op("IsNaN", x), out=mask)
    return True


def _moments(r: Rewriter, x: str, axes: list[int], out: str = "") -> tuple[str, str]:
    """Mean and variance along axes that stay, with one element each."""
    count = r.weight(math.prod(r.shape(x)[a] for a in axes), np.float32)
    mean = r.op("Div", r.along("ReduceSum", x, axes, keepdims=1), count, out=out)
    off = r.op("Sub", x, mean)
    squares = r.along("ReduceSum", r.op("Mul", off, off), axes, keepdims=1)
    return mean, r.op("Div", squares, count)
