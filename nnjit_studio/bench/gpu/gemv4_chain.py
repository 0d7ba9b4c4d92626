"""Chains of 4-bit products of one row: seeded weights in both layouts, and the peer's models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from nnjit_studio.errors import UserError
from nnjit_studio.samples.small import port, save_model

BLOCK = 32
DOMAIN = "com.microsoft"
CHAIN_BYTES = 140_000_000
"""A chain's weights are at least so large, which is more than a GPU's cache holds."""
MOST_MATRICES = 64
ACCURACY_LEVELS = (0, 4)
"""Of ``MatMulNBits``; 4 rounds the activations to 8 bits where the type is f32."""
DTYPES: dict[str, tuple[type[np.floating[Any]], int]] = {
    "f32": (np.float32, TensorProto.FLOAT),
    "f16": (np.float16, TensorProto.FLOAT16),
}


@dataclass(frozen=True)
class Chain:
    """Products of one row, each with weights of its own."""

    dtype: str
    """Of the scales; the peer's also of its activations. Ours have f32 activations always."""
    matrices: tuple[tuple[int, int], ...]
    """K and N of each."""
    first: NDArray[np.float64]
    """Result of the first product in float64."""
    last: NDArray[np.float64]
    """Result of the last product in float64."""

    @property
    def name(self) -> str:
        k, n = self.matrices[0]
        back = "" if k == n else " and back"
        return f"{k}x{n}{back}, {self.dtype}"

    @property
    def nbytes(self) -> int:
        """Of words and scales: what the chain must read at least."""
        scale = np.dtype(DTYPES[self.dtype][0]).itemsize
        return sum(k * n // 2 + k // BLOCK * n * scale for k, n in self.matrices)


def parse_sizes(text: str) -> list[tuple[int, int]]:
    """A comma list such as ``4096x4096,4096x11008``.

    Raises
    ------
    UserError
        When one is not a size, or does not divide into blocks of :data:`BLOCK`.
    """
    found = []
    for word in text.split(","):
        parts = word.split("x")
        if len(parts) != 2 or not all(p.isdigit() and int(p) for p in parts):
            raise UserError(f"{word!r} is not the size of a matrix.", "Write it as 4096x11008.")
        k, n = map(int, parts)
        if k % BLOCK or n % BLOCK:
            raise UserError(
                f"{word}: both sizes must be multiples of {BLOCK}.", "Give such as 4096x11008."
            )
        found.append((k, n))
    return found


def chain_of(size: tuple[int, int], chain_bytes: int) -> tuple[tuple[int, int], ...]:
    """Square matrices, or pairs there and back, until their words are ``chain_bytes``.

    Small ones end at :data:`MOST_MATRICES`.
    """
    k, n = size
    unit = (size,) if k == n else (size, (n, k))
    wanted = -(-chain_bytes // (k * n // 2 * len(unit)))
    return unit * max(1, min(wanted, MOST_MATRICES // len(unit)))


def prepare(
    matrices: Sequence[tuple[int, int]], dtype: str, place: Path
) -> tuple[Chain, list[dict[str, str]]]:
    """Write seeded weights in both layouts and the peer's models; the chain and its peers.

    Scales keep the values near one along the chain: a uniform 4-bit value has the standard
    deviation 4.61. The first input is exact in f16, so that both types start alike.
    """
    place.mkdir()
    numpy_type, _ = DTYPES[dtype]
    rng = np.random.default_rng([4, *matrices[0], len(matrices)])
    x = rng.uniform(-1, 1, matrices[0][0]).astype(np.float16)
    for name, (kind, _) in DTYPES.items():
        (place / f"x.{name}").write_bytes(x.astype(kind).tobytes())
    value = x.astype(np.float64)
    first = None
    with (place / "peer.bin").open("wb") as peer:
        for i, (k, n) in enumerate(matrices):
            words = rng.integers(0, 1 << 32, (k // 8, n), np.uint32)
            spans = rng.uniform(0.5, 1.5, (k // BLOCK, n)) * (1.7 / (4.61 * np.sqrt(k)))
            scales = spans.astype(numpy_type)
            (place / f"words{i}").write_bytes(words.tobytes())
            (place / f"scales{i}.{dtype}").write_bytes(scales.tobytes())
            peer.write(np.ascontiguousarray(words.T).tobytes())
            peer.write(np.ascontiguousarray(scales.T).tobytes())
            value = product(value, words, scales)
            first = value if first is None else first
    assert first is not None
    models = []
    for level in ACCURACY_LEVELS:
        write_model(place / f"one{level}.onnx", matrices[:1], dtype, level)
        write_model(place / f"all{level}.onnx", matrices, dtype, level)
        files = {"one": f"one{level}.onnx", "chain": f"all{level}.onnx", "data": "peer.bin"}
        paths = {key: f"{place.name}/{file}" for key, file in files.items()}
        models.append({"name": f"ort-{level}", **paths})
    return Chain(dtype, tuple(matrices), first, value), models


def product(
    x: NDArray[np.float64], words: NDArray[np.uint32], scales: NDArray[Any]
) -> NDArray[np.float64]:
    """``x`` (K) by the stored matrix in float64: (q - 8) * scale, summed block by block."""
    k, n = 8 * words.shape[0], words.shape[1]
    total = np.zeros(n)
    shifts = 4 * np.arange(8, dtype=np.uint32).reshape(1, 8, 1)
    for block in range(k // BLOCK):
        stored = words[block * BLOCK // 8 : (block + 1) * BLOCK // 8, None, :]
        values = ((stored >> shifts) & np.uint32(15)).reshape(BLOCK, n).astype(np.float64) - 8
        total += x[block * BLOCK : (block + 1) * BLOCK] @ values * scales[block].astype(np.float64)
    return total


def write_model(
    path: Path, matrices: Sequence[tuple[int, int]], dtype: str, accuracy_level: int
) -> None:
    """A chain of ``MatMulNBits``, its weights outside in ``weights.bin``."""
    _, element = DTYPES[dtype]
    names = ["x", *(f"h{i}" for i in range(1, len(matrices))), "y"]
    nodes = [
        helper.make_node(
            "MatMulNBits", [names[i], f"w{i}", f"s{i}"], [names[i + 1]], domain=DOMAIN,
            K=k, N=n, bits=4, block_size=BLOCK, accuracy_level=accuracy_level,
        )
        for i, (k, n) in enumerate(matrices)
    ]  # fmt: skip
    given = [port("x", (1, matrices[0][0]), element)]
    made = [port("y", (1, matrices[-1][1]), element)]
    save_model(path, nodes, given, made, list(_external(matrices, dtype)), DOMAIN)


def _external(matrices: Sequence[tuple[int, int]], dtype: str) -> Iterator[onnx.TensorProto]:
    """Words and scales of each matrix, consecutive in ``weights.bin``."""
    numpy_type, element = DTYPES[dtype]
    itemsize = np.dtype(numpy_type).itemsize
    offset = 0
    for i, (k, n) in enumerate(matrices):
        blocks = k // BLOCK
        for name, kind, dims, nbytes in (
            (f"w{i}", TensorProto.UINT8, (n, blocks, BLOCK // 2), k * n // 2),
            (f"s{i}", element, (n * blocks,), blocks * n * itemsize),
        ):
            tensor = TensorProto(name=name, data_type=kind, dims=dims)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights.bin"), ("offset", offset), ("length", nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            yield tensor
            offset += nbytes
