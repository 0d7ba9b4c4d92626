"""Weights in blocks of few bits, whose kernels are those of other formats.

MatMulNBits in 8 bits whose last block of a row is cut, and MatMulBnb4, are products of the weights
as they are in float32;
GatherBlockQuantized decodes the rows that are looked up. Layouts: ONNX Runtime,
docs/ContribOperators.md and its kernels' tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.onnx_file.arrays import array_of

_FP4 = (0.0, 0.0052083333, 0.6666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
"""The values of bitsandbytes' two formats (QLoRA, arXiv 2305.14314, appendix E)."""


def reshape_tables(model: onnx.ModelProto) -> None:
    """Give GatherBlockQuantized its table as a constant, in place.

    Exporters give words and logits one weight, and reshape it for the words.
    """
    graph: Any = model.graph
    weights = {t.name: t for t in graph.initializer}
    sizes = weights | {
        n.output[0]: n.attribute[0].t
        for n in graph.node
        if n.op_type == "Constant" and n.attribute[0].name == "value"
    }
    readers = {n.input[0] for n in graph.node if n.op_type == "GatherBlockQuantized"}
    nodes = []
    for node in graph.node:
        known = len(node.input) == 2 and node.input[0] in weights and node.input[1] in sizes
        turned = node.op_type == "Reshape" and node.output[0] in readers and known
        size = [int(n) for n in array_of(sizes[node.input[1]])] if turned else [0]
        if min(size) < 1:
            nodes.append(node)
            continue
        table = onnx.TensorProto()  # a copy that may still be mapped from its file
        table.CopyFrom(weights[node.input[0]])
        table.name, table.dims[:] = node.output[0], size
        graph.initializer.append(table)
    if len(nodes) < len(graph.node):
        del graph.node[:]
        graph.node.extend(nodes)


def matmul_nbits(r: Rewriter) -> bool:
    """In 8 bits where a block is cut or zero points are floats; others have their own kernels."""
    k, n, block = (r.attribute(name, 0) for name in ("K", "N", "block_size"))
    if r.attribute("bits", 4) != 8:
        return False
    a, _, _, zero, groups, bias = [*r.node.input, *[""] * 6][:6]
    if groups:
        raise r.refuse("no group index")
    packed, scale = r.constant(1, "weight"), r.constant(2, "scale")
    blocks = -(-k // block)
    if packed.size != n * blocks * block or scale.size != n * blocks:
        raise r.refuse("weights of N rows of K bytes, in whole blocks")
    zeros: Any = r.constant(3, "zero point").reshape(n, blocks, 1) if zero else np.uint8(128)
    if k == blocks * block and zeros.dtype == np.uint8:
        return False
    values = packed.reshape(n, blocks, block).astype(np.float32)
    held = (values - zeros.astype(np.float32)) * scale.reshape(n, blocks, 1).astype(np.float32)
    _product(r, a, held.reshape(n, -1)[:, :k], bias)
    return True


def matmul_bnb4(r: Rewriter) -> bool:
    """High half of a byte first; blocks run over the whole weight, row after row."""
    k, n, block = (r.attribute(name, 0) for name in ("K", "N", "block_size"))
    if not r.attribute("transB", 1):
        raise r.refuse("transB 1")
    packed, largest = r.constant(1, "weight").reshape(-1), r.constant(2, "scale").reshape(-1)
    table = _NF4 if r.attribute("quant_type", 1) else (*_FP4, *(-v for v in _FP4))
    if 2 * packed.size < n * k or largest.size * block < n * k:
        raise r.refuse("weights and scales of N rows of K values")
    codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)[: n * k]
    scale = np.repeat(largest.astype(np.float32), block)[: n * k]
    _product(r, r.node.input[0], (np.array(table, np.float32)[codes] * scale).reshape(n, k), "")
    return True


def _product(r: Rewriter, a: str, rows: NDArray[Any], bias: str) -> None:
    out = r.node.output[0]
    weight = r.weight(np.ascontiguousarray(rows.T), np.float32)
    product = r.op("MatMul", a, weight, out="" if bias else out)
    if bias:
        r.op("Add", product, bias, out=out)


def gather_block_quantized(r: Rewriter) -> bool:
    """Rows of a table whose blocks lie along its last axis."""
    _, places, scale, zero = [*r.node.input, ""][:4]
    table, scales = r.constant(0, "table"), r.constant(2, "scale")
    last = r.attribute("quantize_axis", 1) % table.ndim == table.ndim - 1
    if table.ndim != 2 or r.attribute("gather_axis", 0) or not last:
        raise r.refuse("rows with blocks along them")
    bits, bytes_ = r.attribute("bits", 4), table.dtype == np.uint8
    halves = bytes_ and bits == 4
    if not bytes_:
        table = table.astype(np.int8)
    blocks = scales.shape[-1]
    at = (*r.shape(places), blocks)
    values = r.op("Cast", r.op("Gather", r.weight(table), places, axis=0), to=TensorProto.INT32)
    values = _block_values(r, values, halves, at)
    if zero:
        zeros = r.constant(3, "zero point")
        if halves:
            zeros = np.stack([zeros & 15, zeros >> 4], axis=-1).reshape(len(zeros), -1)
        held = r.weight(zeros[:, :blocks].astype(np.float32))
        values = r.op("Sub", values, _rows(r, held, places, at))
    elif bytes_:
        values = r.op("Sub", values, r.weight(1 << (bits - 1), np.float32))
    scaled = r.op("Mul", values, _rows(r, scale, places, at))
    shape = r.weight([*at[:-1], -1], np.int64)
    r.op("Reshape", scaled, shape, out=r.node.output[0])
    return True


def _block_values(r: Rewriter, values: str, halves: bool, at: tuple[int, ...]) -> str:
    """Float32 values by block; of two in a byte the low half is the first."""
    if halves:
        high = r.op("Div", values, r.weight(16, np.int32))
        low = r.op("Sub", values, r.op("Mul", high, r.weight(16, np.int32)))
        parts = [r.along("Unsqueeze", v, [len(at)]) for v in (low, high)]
        values = r.op("Concat", *parts, axis=len(at))
    whole = r.op("Reshape", values, r.weight([*at, -1], np.int64))
    return r.op("Cast", whole, to=TensorProto.FLOAT)


def _rows(r: Rewriter, table: str, places: str, at: tuple[int, ...]) -> str:
    rows = r.op("Gather", table, places, axis=0)
    return r.op("Reshape", rows, r.weight([*at, 1], np.int64))
