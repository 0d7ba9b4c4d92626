"""Where a product of few rows has its activations from: a buffer, or made of others as it is read.

A made row's common factor is left to the end: threads add up what it depends on as they read the
row, and whoever stores a result multiplies by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nnjit_studio.compiler.ir.affine import LANES, loads, walk
from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Expr, Program
from nnjit_studio.compiler.recognize.made_row import ELEMENT, TOTAL, MadeRow
from nnjit_studio.compiler.wgsl.core.document import Shader
from nnjit_studio.compiler.wgsl.core.lanes import Lanes
from nnjit_studio.compiler.wgsl.core.syntax import indented
from nnjit_studio.compiler.wgsl.core.values import Block, Context


class Source(Protocol):
    """The activations of a product."""

    @property
    def adds(self) -> bool:
        """Whether results are to be multiplied by a factor, of a total over the row."""

    def declare(self, shader: Shader) -> None:
        """Bind buffers, add functions."""

    def load(self, name: str, word: str, row: str) -> list[str]:
        """Lines that make ``{name}_lo`` and ``{name}_hi``: eight values from ``8 * word`` on.

        Where it adds, also ``{name}_added``: what these eight add to the total.
        """

    def factor(self, parts: str) -> list[str]:
        """Lines that make ``factor``, of the total's ``parts`` in workgroup memory."""


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
    adds = False

    def declare(self, shader: Shader) -> None:
        last = self.offset + (self.rows - 1) * (self.stride or self.k) + self.k
        shader.bind(self.buffer, "source", f"array<vec4<f32>, {last // 4}>")

    def load(self, name: str, word: str, row: str) -> list[str]:
        at = f"{word} * 2u + {self.offset // 4}u"
        if self.rows > 1:
            at = f"{row} * {(self.stride or self.k) // 4}u + {at}"
        return [f"let {name}_lo = source[{at}];", f"let {name}_hi = source[{at} + 1u];"]

    def factor(self, parts: str) -> list[str]:
        return []


@dataclass(frozen=True)
class Made:
    """One row, made of inputs of the program."""

    program: Program
    row: MadeRow

    @property
    def adds(self) -> bool:
        return self.row.factor is not None

    def declare(self, shader: Shader) -> None:
        for i, buffer in enumerate(self.program.buffers):
            if buffer.name in self._read:
                shader.bind(f"a{i}", f"row_{buffer.name}", "array<vec4<f32>>")
        shader.functions("\n".join((*self.load("a", "0u", ""), *self.factor("1u"))))

    def load(self, name: str, word: str, row: str) -> list[str]:
        lines = [f"var {name}_added = 0.0;"] if self.adds else []
        quick = _own_gates(self.row.value)
        for half, end in enumerate(("lo", "hi")):
            lanes = Lanes(self.program, self._names, self._read, LANES, ELEMENT, quick)
            value = lanes.value(self.row.value)
            part = [f"let {ELEMENT} = ({word} * 2u + {half}u) * {LANES}u;"]
            if self.row.added is not None:
                added = f"dot({lanes.value(self.row.added)}, vec4<f32>(1.0))"
                lanes.lines.append(f"{name}_added += {added};")
            part += [*lanes.lines, f"{name}_{end} = {value};"]
            lines += [f"var {name}_{end}: vec4<f32>;", "{", *indented(part), "}"]
        return lines

    def factor(self, parts: str) -> list[str]:
        if self.row.factor is None:
            return []
        block = Block(Context({}, {}, {TOTAL: "f32"}))
        value = block.typed(self.row.factor, "f32")
        return [
            f"var {TOTAL} = 0.0;",
            f"for (var j = 0u; j < {parts}; j++) {{ {TOTAL} += added[j]; }}",
            *block.lines,
            f"let factor = {value};",
        ]

    @property
    def _names(self) -> dict[str, str]:
        return {buffer: f"row_{buffer}" for buffer in self._read}

    @property
    def _read(self) -> frozenset[str]:
        exprs: list[Expr] = [e for e in (self.row.value, self.row.added) if e is not None]
        return frozenset(load.buffer for e in exprs for load in loads(e))


def _own_gates(value: Expr) -> frozenset[Expr]:
    """Sigmoids of what they are multiplied by: where that is no number, the product is none."""
    products = [e for e in walk(value) if isinstance(e, Binary) and e.op == "mul"]
    pairs = [pair for e in products for pair in ((e.a, e.b), (e.b, e.a))]
    return frozenset(g for x, g in pairs if g == Call("sigmoid", (x,)))
