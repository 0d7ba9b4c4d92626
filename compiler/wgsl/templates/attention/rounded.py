"""Attention of many queries whose weights are rounded, as in models of bytes: two walks over K.

A rounded weight cannot be made smaller when a larger score comes, so a first walk finds the largest
score and the sum of each row.
"""

from __future__ import annotations

from nnjit_studio.compiler.ir.tensor_ir import Expr
from nnjit_studio.compiler.recognize.softmax import QUOTIENT
from nnjit_studio.compiler.wgsl.core.document import Shader
from nnjit_studio.compiler.wgsl.core.functions import used_functions
from nnjit_studio.compiler.wgsl.core.syntax import indented
from nnjit_studio.compiler.wgsl.core.values import Block, Context
from nnjit_studio.compiler.wgsl.templates.attention.tiles import Tiles


class RoundedTiles(Tiles):
    """The lines of one kernel; all keys are in one part."""

    def declare(self, shader: Shader) -> None:
        super().declare(shader)
        assert self.a.weight is not None
        _declare_weight(shader, self.a.weight)

    def first_walk(self) -> list[str]:
        """``top`` and ``scale``, the reciprocal of the sum, of each row; then K anew."""
        rows = range(self.c.y0)
        step = [
            "workgroupBarrier();",
            *self.store(self.k, "step"),
            "workgroupBarrier();",
            *self._ahead(f"min(step + 1u, {self.steps - 1}u)"),
            *self.scores("step"),
            *super().largest(),
            "workgroupBarrier();",
            *super().weights(kept=False),
        ]
        scales = [f"scale{r} = 1.0 / {self.of_row(r)};" for r in rows]
        return [
            f"for (var step = 0u; step < {self.steps}u; step++) {{",
            *indented(step),
            "}",
            *(f"var scale{r} = 0.0;" for r in rows),
            "{",
            *indented([*super().totals(), *scales]),
            "}",
            *self._ahead("0u"),
        ]

    def _ahead(self, tile: str) -> list[str]:
        return self.fetch(self.k, tile) if self.tile.ahead else []

    def largest(self) -> list[str]:
        return []

    def weights(self, kept: bool = True) -> list[str]:
        lines = []
        for r in range(self.c.y0):
            for j in range(self.tile.key_quads):
                value = f"weight(exp(s{r}_{j} - vec4<f32>(top{r})) * scale{r})"
                if self.ragged:
                    value = f"select(vec4<f32>(), {value}, there{j})"
                lines.append(f"{self.weight_place(r, j)} = {value};")
        return lines

    def totals(self) -> list[str]:
        return []

    def factor(self, r: int) -> str:
        return "1.0"


def _declare_weight(shader: Shader, weight: Expr) -> None:
    """The function ``weight`` of four quotients."""
    block = Block(Context({}, {}, {QUOTIENT: "f32"}))
    block.expect([weight])
    value = block.typed(weight, "f32")
    each = (f"rounded(x.{lane})" for lane in "xyzw")
    text = "\n".join(
        [
            f"fn rounded({QUOTIENT}: f32) -> f32 {{",
            *indented([*block.lines, f"return {value};"]),
            "}",
            f"fn weight(x: vec4<f32>) -> vec4<f32> {{ return vec4<f32>({', '.join(each)}); }}",
        ]
    )
    if needed := used_functions(text):
        shader.line(needed.rstrip("\n"))
    shader.line(text)
