"""The decoder in NumPy float64, from the same stored weights: what the kernels are judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.bench.llm.decoder.config import BLOCK, LlamaConfig

Array = NDArray[np.float64]


def decoded(words: NDArray[np.uint32], scales: NDArray[np.float16]) -> Array:
    """A K x N matrix from ``K / 8`` rows of words and ``K / BLOCK`` rows of scales."""
    shifts = (4 * np.arange(8, dtype=np.uint32)).reshape(1, 8, 1)
    nibbles = (words[:, None, :] >> shifts) & np.uint32(15)
    values = nibbles.reshape(-1, words.shape[1]).astype(np.float64) - 8
    matrix: Array = values * np.repeat(scales.astype(np.float64), BLOCK, axis=0)
    return matrix


def rope_table(config: LlamaConfig) -> NDArray[np.float32]:
    """Cosine and sine, context x head / 2 x 2 (Su et al., RoFormer, section 3.4.2)."""
    half = config.head // 2
    angles = np.outer(
        np.arange(config.context), config.theta ** (-np.arange(half, dtype=np.float64) / half)
    )
    return np.stack((np.cos(angles), np.sin(angles)), axis=-1).astype(np.float32)


class Reference:
    """One text, token by token; keys and values are rounded to f16 as in the GPU's cache."""

    def __init__(self, config: LlamaConfig, weights: Mapping[str, bytes]) -> None:
        c = self.config = config
        self._gains = {
            name: np.frombuffer(data, np.float32).astype(np.float64)
            for name, data in weights.items()
            if name.endswith(".gains")
        }
        shapes = {
            f"{layer}.{name}": shape
            for layer in range(c.layers)
            for name, shape in c.matrices.items()
        }
        shapes["logits"] = (c.width, c.vocabulary)
        self._matrices = {
            name: decoded(
                np.frombuffer(weights[f"{name}.words"], np.uint32).reshape(-1, n),
                np.frombuffer(weights[f"{name}.scales"], np.float16).reshape(-1, n),
            )
            for name, (_, n) in shapes.items()
        }
        # The table has each token's words and scales in one piece.
        words = np.frombuffer(weights["table.words"], np.uint32).reshape(c.vocabulary, -1)
        scales = np.frombuffer(weights["table.scales"], np.float16).reshape(c.vocabulary, -1)
        self._table = decoded(words.T, scales.T).T
        self._rope = rope_table(c).astype(np.float64)
        self.before_last: Array = np.zeros(0)
        """Logits that the last token of :meth:`generate` was chosen from."""
        self._cache: list[tuple[list[Array], list[Array]]] = [([], []) for _ in range(c.layers)]

    def step(self, token: int) -> Array:
        """Logits after one more token."""
        c = self.config
        x = self._table[token]
        position = len(self._cache[0][0])
        for layer in range(c.layers):
            qkv = self._normed(x, f"{layer}.attention") @ self._matrices[f"{layer}.qkv"]
            q, k, v = (part.reshape(c.heads, c.head) for part in np.split(qkv, 3))
            q, k = self._rotated(q, position), self._rotated(k, position)
            keys, values = self._cache[layer]
            keys.append(_half(k))
            values.append(_half(v))
            x = x + self._attention(q, keys, values) @ self._matrices[f"{layer}.project"]
            both = self._normed(x, f"{layer}.hidden") @ self._matrices[f"{layer}.expand"]
            gate, up = both[0::2], both[1::2]
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self._matrices[f"{layer}.contract"]
        logits: Array = self._normed(x, "logits") @ self._matrices["logits"]
        return logits

    def generate(self, prompt: Sequence[int], count: int) -> tuple[list[int], float]:
        """``count`` greedy tokens after the prompt, and the least lead of one over the next."""
        logits = np.zeros(0)
        for token in prompt:
            logits = self.step(token)
        made: list[int] = []
        margin = np.inf
        for _ in range(count):
            second, first = np.partition(logits, -2)[-2:]
            margin = min(margin, float(first - second))
            made.append(int(np.argmax(logits)))
            self.before_last = logits
            if len(made) < count:
                logits = self.step(made[-1])
        return made, margin

    def _normed(self, x: Array, name: str) -> Array:
        root = np.sqrt(np.mean(x * x) + self.config.epsilon)
        normed: Array = x / root * self._gains[f"{name}.gains"]
        return normed

    def _rotated(self, x: Array, position: int) -> Array:
        cos, sin = self._rope[position, :, 0], self._rope[position, :, 1]
        even, odd = x[:, 0::2], x[:, 1::2]
        return np.stack((even * cos - odd * sin, even * sin + odd * cos), -1).reshape(x.shape)

    def _attention(self, q: Array, keys: list[Array], values: list[Array]) -> Array:
        scores = np.einsum("hd,phd->hp", q, np.stack(keys)) / np.sqrt(self.config.head)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        merged: Array = np.einsum("hp,phd->hd", weights, np.stack(values)).reshape(-1)
        return merged


def _half(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float64)
