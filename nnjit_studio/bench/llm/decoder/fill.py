"""Seeded weights that a page makes on the GPU and NumPy makes for a file: bit for bit alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.wgsl.core.document import Dispatch, Shader

THREADS = 256
GRID_X = 16384
"""Workgroups in x of a fill; the rest goes to y."""
_GOLDEN = 0x9E3779B9


def mixed(index: NDArray[np.uint32], seed: int) -> NDArray[np.uint32]:
    """A hash of each index (lowbias32, Wellons, Prospecting for Hash Functions)."""
    return _mix(_mix(index) + np.uint32(seed * _GOLDEN & 0xFFFFFFFF))


def words(first: int, count: int, seed: int) -> NDArray[np.uint32]:
    """Random words ``first``, ``first + 1``, ... of a buffer."""
    return mixed(np.arange(first, first + count, dtype=np.uint32), seed)


def scales(first: int, count: int, seed: int, exponent: int) -> NDArray[np.float16]:
    """``2 ** exponent * [0.5, 1.5)``, exact in f16; two from the index of a word."""
    found = mixed(np.arange(first // 2, (first + count) // 2, dtype=np.uint32), seed)
    halves = np.stack((found & np.uint32(255), found >> np.uint32(8) & np.uint32(255)), 1)
    made: NDArray[np.float32] = (halves.reshape(-1).astype(np.float32) + 128) * np.float32(
        2.0 ** (exponent - 8)
    )
    return made.astype(np.float16)


def gains(first: int, count: int, seed: int) -> NDArray[np.float32]:
    """f32 in [0.5, 1.5)."""
    found = words(first, count, seed) & np.uint32(255)
    made: NDArray[np.float32] = (found.astype(np.float32) + 128) / np.float32(256)
    return made


def data(kind: str, first_word: int, count: int, seed: int, exponent: int) -> bytes:
    """``count`` words of 32 bits of a buffer of that kind, from ``first_word`` on."""
    makers: dict[str, Callable[[], NDArray[np.generic]]] = {
        "words": lambda: words(first_word, count, seed),
        "scales": lambda: scales(2 * first_word, 2 * count, seed, exponent),
        "gains": lambda: gains(first_word, count, seed),
    }
    return makers[kind]().tobytes()


def fill(kind: str) -> Dispatch:
    """Writes ``params[0]`` words of ``filled``; then ``params`` holds seed and exponent (i32).

    The number of workgroups depends on the buffer: ``GRID_X`` in x, in y as many as it takes.
    """
    shader = Shader()
    shader.bind("params", "params", "array<u32, 4>")
    shader.bind("filled", "filled", "array<u32>", "read_write")
    shader.line(
        "fn mix_(given: u32) -> u32 {\n"
        "  var x = given;\n"
        "  x ^= x >> 16u;\n  x *= 0x7feb352du;\n  x ^= x >> 15u;\n"
        "  x *= 0x846ca68bu;\n  x ^= x >> 16u;\n  return x;\n}"
    )
    made = {
        "words": ["let made = found;"],
        "scales": [
            "let pair = vec2<f32>(f32((found & 255u) + 128u), f32(((found >> 8u) & 255u) + 128u));",
            "let made = pack2x16float(ldexp(pair, vec2<i32>(bitcast<i32>(params[2]) - 8)));",
        ],
        "gains": ["let made = bitcast<u32>(f32((found & 255u) + 128u) / 256.0);"],
    }[kind]
    body = [
        f"let i = (wg.y * {GRID_X}u + wg.x) * {THREADS}u + li;",
        "if (i >= params[0]) { return; }",
        f"let found = mix_(mix_(i) + params[1] * {_GOLDEN}u);",
        *made,
        "filled[i] = made;",
    ]
    return shader.dispatch(THREADS, (GRID_X, 1, 1), body)


def _mix(given: NDArray[np.uint32]) -> NDArray[np.uint32]:
    x: NDArray[np.uint32] = given.copy()
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    x ^= x >> np.uint32(16)
    return x
