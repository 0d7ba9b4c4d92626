"""Sources of a 4-bit product's rows, and destinations of its sums."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.wgsl.core.document import Shader
from nnjit_studio.records.gpu_candidate import GpuCandidate


@dataclass(frozen=True)
class Plain:
    """Rows of ``k`` floats in a buffer."""

    buffer: str
    k: int
    rows: int = 1
    stride: int = 0
    """Elements from one row to the next, a multiple of 4; 0 for ``k``."""
    offset: int = 0
    """Elements in front of the first row, a multiple of 4."""

    def declare(self, shader: Shader) -> None:
        last = self.offset + (self.rows - 1) * (self.stride or self.k) + self.k
        shader.bind(self.buffer, "source", f"array<vec4<f32>, {last // 4}>")

    def load(self, name: str, word: str, row: str) -> list[str]:
        """Lines that make ``{name}_lo`` and ``{name}_hi``: eight values from ``8 * word`` on."""
        at = f"{word} * 2u + {self.offset // 4}u"
        if self.rows > 1:
            at = f"{row} * {(self.stride or self.k) // 4}u + {at}"
        return [f"let {name}_lo = source[{at}];", f"let {name}_hi = source[{at} + 1u];"]


@dataclass(frozen=True)
class Stored:
    """The sums as they are, rows of ``n``."""

    buffer: str
    n: int
    rows: int = 1

    def declare(self, shader: Shader) -> None:
        shader.bind(self.buffer, "result", f"array<f32, {self.rows * self.n}>", "read_write")

    def lines(self, candidate: GpuCandidate) -> list[str]:
        x1, y0 = candidate.x1, candidate.y0
        return [
            f"for (var t = li; t < {x1 * y0}u; t += {x1 // 4 * (candidate.r1 // 8)}u) {{",
            f"  let n = wg.x * {x1}u + t % {x1}u;",
            f"  let m = wg.y * {y0}u + t / {x1}u;",
            f"  if (n < {self.n}u) {{ result[m * {self.n}u + n] = total[t]; }}",
            "}",
        ]
