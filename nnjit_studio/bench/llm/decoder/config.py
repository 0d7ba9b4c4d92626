"""Sizes of a Llama-shaped decoder, and how its matrices are stored."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.wgsl.templates.nibbles import Matrix4
from nnjit_studio.errors import UserError

BLOCK = 32
"""Weights along k that share an f16 scale; the zero point is 8."""
PART = 16
"""Columns whose squares, or whose best, are handed on as one number."""

PREFILL = 8
"""Tokens of a prompt that are read at once: as many as share a decoded word in registers."""


@dataclass(frozen=True)
class LlamaConfig:
    """A decoder of ``layers`` blocks: RMSNorm, attention with RoPE, RMSNorm, gated SiLU.

    The default sizes are those of Llama 2 7B, which has as many key heads as heads.
    """

    layers: int = 32
    width: int = 4096
    heads: int = 32
    hidden: int = 11008
    vocabulary: int = 32000
    context: int = 2048
    """Slots of the cache: tokens of the longest text."""
    splits: int = 4
    """Parts of the cache that attention reads side by side."""
    epsilon: float = 1e-5
    theta: float = 10000.0
    seed: int = 1

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.width // self.heads

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """K and N of a layer's products, by name.

        Columns of ``qkv`` are those of q, k, v; of ``expand`` gate and up alternate,
        so that both of a pair lie in one workgroup, whatever its size.
        """
        d, f = self.width, self.hidden
        return {"qkv": (d, 3 * d), "project": (d, d), "expand": (d, 2 * f), "contract": (f, d)}

    def matrix(self, k: int, n: int) -> Matrix4:
        return Matrix4(k, n, block=BLOCK, half_scales=True)

    @property
    def weight_bytes(self) -> int:
        """Words and scales that one token must read: all layers and the head."""
        shapes = [*list(self.matrices.values()) * self.layers, (self.width, self.vocabulary)]
        return sum(self.matrix(k, n).nbytes for k, n in shapes)

    def cache_bytes(self, tokens: int) -> int:
        """Keys and values, f16, that attention reads of so many tokens, in all layers."""
        return 2 * 2 * self.layers * self.width * tokens


TINY = LlamaConfig(layers=2, width=64, heads=2, hidden=96, vocabulary=128, context=64)
"""Small enough for a software adapter and a float64 reference in a test."""


def checked(config: LlamaConfig) -> LlamaConfig:
    """The configuration, if there are kernels for it.

    Raises
    ------
    UserError
        When a size does not fit the kernels' blocks.
    """
    c = config
    head = c.head
    if c.width % c.heads or head % 32 or head & (head - 1) or head > 256:
        raise UserError(
            f"{c.heads} heads do not divide a width of {c.width} into 32, 64, 128 or 256.",
            "Choose another --width or --heads.",
        )
    for name, size in (("width", c.width), ("hidden", c.hidden), ("vocabulary", c.vocabulary)):
        if size % BLOCK:
            raise UserError(f"A {name} of {size} is not a multiple of {BLOCK}.", "Round it up.")
    if min(c.layers, c.context, c.splits) < 1:
        raise UserError("Layers, context and splits are at least 1.", "Raise them.")
    return c
