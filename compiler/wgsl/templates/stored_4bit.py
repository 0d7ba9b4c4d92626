"""How a matrix is stored in 4 bits, and how a kernel reads its scales and zero points."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.wgsl.core.document import Shader
from nnjit_studio.compiler.wgsl.templates.nibbles import COLUMNS, WORD


@dataclass(frozen=True)
class Matrix4:
    """A K x N matrix; words lie in ``K / 8`` rows of ``N``, a word eight neighbours in k."""

    k: int
    n: int
    words: str = "words"
    scales: str = "scales"
    zeros: str = ""
    """Name of the buffer of zero points, u8, laid out as the scales; or empty."""
    block: int = 32
    """Values along k that share a scale."""
    half_scales: bool = False
    """Whether the scales are f16, else f32."""
    zero: float = 8.0
    """The zero point where ``zeros`` is empty."""
    stride: int = 0
    """Elements from one row of scales to the next; 0 for ``n``."""

    @property
    def rows(self) -> int:
        """Rows of words."""
        return self.k // WORD

    @property
    def columns(self) -> int:
        """Vectors of four words in a row."""
        return self.n // COLUMNS

    @property
    def across(self) -> int:
        """Vectors from one row of scales to the next."""
        return (self.stride or self.n) // COLUMNS

    @property
    def nbytes(self) -> int:
        """Of words and scales: what a product must read at least."""
        return self.k * self.n // 2 + self.k // self.block * self.n * (2 if self.half_scales else 4)

    @property
    def scale_type(self) -> str:
        """WGSL's type of the scales of four columns, as they are stored."""
        return "vec2<u32>" if self.half_scales else "vec4<f32>"

    def bind(self, shader: Shader) -> None:
        """Let ``words``, ``scales`` and ``zeros`` stand for vectors of four columns."""
        groups = self.k // self.block * self.across
        shader.bind(self.words, "words", f"array<vec4<u32>, {self.rows * self.columns}>")
        shader.bind(self.scales, "scales", f"array<{self.scale_type}, {groups}>")
        if self.zeros:
            shader.bind(self.zeros, "zeros", f"array<u32, {groups}>")

    def scale(self, stored: str) -> str:
        """Four scales as they were loaded, as floats."""
        if not self.half_scales:
            return stored
        return f"vec4<f32>(unpack2x16float({stored}.x), unpack2x16float({stored}.y))"

    def offset(self, stored: str, decoded: float) -> str:
        """What four decoded values, ``decoded`` above q, are above those that they stand for."""
        if not self.zeros:
            return f"vec4<f32>({decoded + self.zero})"
        zeros = ", ".join(f"({stored} >> {8 * c}u) & 255u" for c in range(COLUMNS))
        return f"vec4<f32>(vec4<u32>({zeros})) + {decoded}"
