"""One operand of a product: how threads fetch its tiles and lay them in workgroup memory.

In workgroup memory both operands lie the same way: for each step of k, a row
of vectors along m (of A) or n (of B), so that the inner loop reads whole
vectors. A matrix whose rows run along k is transposed on the way, in
registers: a thread fetches ``per_k`` steps of ``width`` rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from nnjit_studio.compiler.recognize.contraction import Contraction, Operand
from nnjit_studio.compiler.wgsl.core.document import Shader
from nnjit_studio.compiler.wgsl.core.memory import PACKED
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times, vector
from nnjit_studio.records.gpu_candidate import VECTOR_WIDTHS, GpuCandidate
from nnjit_studio.space.webgpu.usage import row_vectors, tile_width


@dataclass(frozen=True)
class Side:
    """A strided operand; strides in elements."""

    name: str
    """``A`` or ``B``; its tile in workgroup memory is ``tileA`` or ``tileB``."""
    buffer: str
    offset: int
    batch: tuple[tuple[str, int], ...]
    across: int
    """Stride of its own axis: m of A, n of B."""
    extent: int
    """Extent of its own axis."""
    along: int
    """Stride of the reduction."""
    k: int
    """Extent of the reduction."""
    scalar: str = "f32"
    """WGSL's type of an element."""
    flips: int = 0
    """Bits of an element that are flipped on the way into workgroup memory."""
    stored: str = "f32"
    """What the elements are stored in: two f16, or four i8 or u8, to a word."""
    zero: float = 0.0
    """What is taken off each byte."""

    def bind(self, shader: Shader, argument: str, load: int) -> None:
        """Let the side's name stand for its elements, ``load`` of them together."""
        if self.stored not in PACKED:
            shader.bind(argument, self.name, f"array<{self.vector(load)}>")
            return
        words = -(-load // PACKED[self.stored])
        shader.bind(argument, self.name, f"array<{vector(words, 'u32')}>")
        body = self._halves(load) if self.stored == "f16" else self._bytes(load)
        shader.line(f"fn {self.name}_at(i: u32) -> {self.vector(load)} {{ {body} }}")

    def _halves(self, load: int) -> str:
        value = {
            1: f"unpack2x16float({self.name}[i >> 1u])[i & 1u]",
            2: f"unpack2x16float({self.name}[i])",
            4: f"vec4<f32>(unpack2x16float({self.name}[i].x), unpack2x16float({self.name}[i].y))",
        }[load]
        return f"return {value};"

    def _bytes(self, load: int) -> str:
        at, lanes = {
            1: ("i >> 2u", "four[i & 3u]"),
            2: ("i >> 1u", "select(four.xy, four.zw, (i & 1u) == 1u)"),
            4: ("i", "four"),
        }[load]
        four = f"vec4<f32>(unpack4x{self.stored.upper()}({self.name}[{at}])) - {self.zero}"
        return f"let four = {four}; return {lanes};"

    def element(self, index: str) -> str:
        """The element, or vector of elements, at an index."""
        return f"{self.name}_at({index})" if self.stored in PACKED else f"{self.name}[{index}]"

    def vector(self, width: int) -> str:
        """The type of so many elements."""
        return vector(width, self.scalar)

    def aligned(self, width: int, step: int) -> bool:
        """Whether vectors of ``width`` lie at every point; ``step`` is the other stride."""
        numbers = (self.offset, step, *(stride for _, stride in self.batch))
        return all(number % width == 0 for number in numbers)

    def widest(self, limit: int, along: bool) -> int:
        """Largest vector, up to ``limit``, in which its axis along k, or across, can be read."""
        unit, extent = (self.along, self.k) if along else (self.across, self.extent)
        step = self.across if along else self.along
        if unit != 1:
            return 1
        return max(
            width
            for width in VECTOR_WIDTHS
            if width == 1 or (width <= limit and extent % width == 0 and self.aligned(width, step))
        )


def sides(c: Contraction) -> tuple[Side, Side]:
    """A and B of a contraction."""

    def strides(operand: Operand) -> tuple[tuple[str, int], ...]:
        return tuple((axis.var, s) for axis, s in zip(c.batch, operand.batch, strict=True))

    a, b = c.a, c.b
    return (
        Side(
            "A", a.buffer, a.offset, strides(a), a.row, c.m, a.column, c.k, stored=a.dtype,
        ),
        Side(
            "B", b.buffer, b.offset, strides(b), b.column, c.n, b.row, c.k, stored=b.dtype,
            zero=b.zero,
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class Fetch:
    """How a workgroup fetches one operand's tile of ``extent`` x ``depth`` elements."""

    side: Side
    extent: int
    depth: int
    threads: int
    width: int
    """Elements of a vector in workgroup memory, along the operand's own axis."""
    per_k: int
    """Steps of k that a thread fetches at once, one vector of ``per_k`` for each of ``width``
    rows; 1 where the matrix does not run along k."""
    load: int
    """Elements of one load."""

    @property
    def units(self) -> int:
        """Pieces of the tile that a thread fetches, of all threads together."""
        return (self.depth // self.per_k) * (self.extent // self.width)

    @property
    def turns(self) -> int:
        return -(-self.units // self.threads)

    @property
    def loads(self) -> int:
        """Loads of one piece."""
        return self.width if self.per_k > 1 or self.load < self.width else 1

    @property
    def lane_step(self) -> int:
        """Columns, or rows, from one element of a vector to the next."""
        return 1

    @property
    def vector_step(self) -> int:
        """Columns, or rows, from one vector to the next."""
        return self.width

    @property
    def pitch(self) -> int:
        """Vectors from one step of k to the next in workgroup memory."""
        return row_vectors(self.extent, self.width)

    @property
    def size(self) -> int:
        """Vectors of one tile in workgroup memory."""
        return self.pitch * self.depth

    def bind(self, shader: Shader, argument: Callable[[str], str]) -> None:
        """Bind what is fetched; ``argument`` tells a buffer's name in the document."""
        self.side.bind(shader, argument(self.side.buffer), self.load)

    def _register(self, turn: int, number: int) -> str:
        return f"next{self.side.name}{turn}_{number}"

    def declare(self) -> list[str]:
        """Registers of the tile that is on its way."""
        kind = self.side.vector(self.load)
        return [
            f"var {self._register(q, i)} = {kind}();"
            for q in range(self.turns)
            for i in range(self.loads)
        ]

    def places(self, group: str) -> list[str]:
        """Where each thread's pieces begin: computed once, before the reduction.

        ``group`` is the number of the tile along the operand's own axis.
        """
        s, name, d = self.side, self.side.name, self.load
        k_units, own_units = self.depth // self.per_k, self.extent // self.width
        base = plus(*(times(var, stride // d) for var, stride in s.batch), str(s.offset // d))
        lines = []
        for q in range(self.turns):
            piece = plus("li", str(q * self.threads))
            split = k_units if self.per_k > 1 or s.along == 1 else own_units
            low, high = f"{piece} % {split}u", f"{piece} / {split}u"
            if q:
                low, high = f"({piece}) % {split}u", f"({piece}) / {split}u"
            if self._partial(q):  # threads that have nothing to fetch read what others read
                rest = self.units // split - 1
                high = f"min({high}, {rest}u)"
            k, own = (low, high) if split == k_units and s.along == 1 else (high, low)
            lines += [f"let k{name}{q} = {k};", f"let own{name}{q} = {own};"]
            for i in range(self.loads):
                # Vectors along the own axis are counted as such, single elements one by one.
                step = self.width if self.per_k == 1 and self.load > 1 else 1
                own = times(f"own{name}{q}", self.width // step)
                place = plus(times(group, self.extent // step), own, str(i))
                if s.extent % self.extent:
                    place = f"min({place}, {s.extent // step - 1}u)"
                elif s.across * step != d and "+" in place:
                    place = f"({place})"
                place = times(place, s.across * step // d)
                lines.append(f"let at{name}{q}_{i} = {plus(base, place)};")
        return lines

    def fetch(self, step: str) -> list[str]:
        """Loads of the tile number ``step`` into registers, zeros behind the end of k."""
        s, name = self.side, self.side.name
        stride = s.along * self.per_k // self.load
        rest = s.k % self.depth
        lines = []
        for q in range(self.turns):
            body = [f"let k = {plus(times(step, self.depth // self.per_k), f'k{name}{q}')};"]
            k = "k"
            if rest:
                k = f"min(k, {s.k // self.per_k - 1}u)"
            for i in range(self.loads):
                value = s.element(plus(f"at{name}{q}_{i}", times(k, stride)))
                if s.flips:
                    value += f" ^ {s.vector(self.load)}({s.flips}u)"
                if rest:
                    value = f"select({s.vector(self.load)}(), {value}, k < {s.k // self.per_k}u)"
                body.append(f"{self._register(q, i)} = {value};")
            lines += ["{", *indented(body), "}"]
        return lines

    def store(self, stage: str) -> list[str]:
        """The registers into workgroup memory, transposed where the matrix runs along k."""
        name, lines = self.side.name, []
        for q in range(self.turns):
            row = times(f"k{name}{q}", self.per_k * self.pitch)
            body = [f"let at = {plus(stage, row, f'own{name}{q}')};"]
            for e in range(self.per_k):
                parts = [self._register(q, i) for i in range(self.loads)]
                if self.per_k > 1:
                    parts = [f"{part}.{'xyzw'[e]}" for part in parts]
                kind = self.side.vector(self.width)
                value = parts[0] if len(parts) == 1 else f"{kind}({', '.join(parts)})"
                body.append(f"tile{name}[{plus('at', str(e * self.pitch))}] = {value};")
            lines += self._guarded(q, body)
        return lines

    def _partial(self, turn: int) -> bool:
        """Whether some threads have no piece in a turn."""
        return (turn + 1) * self.threads > self.units

    def _guarded(self, turn: int, body: list[str]) -> list[str]:
        if not self._partial(turn):
            return ["{", *indented(body), "}"]
        piece = plus("li", str(turn * self.threads))
        return [f"if ({piece} < {self.units}u) {{", *indented(body), "}"]


def fetch_of(side: Side, extent: int, own: int, candidate: GpuCandidate) -> Fetch:
    """The way to fetch a tile of ``extent`` rows or columns, ``own`` of each thread."""
    width = tile_width(own)
    depth = candidate.r1
    per_k = math.gcd(side.widest(candidate.vec, along=True), depth)
    # Narrower loads for all threads beat wide ones for some: a load under a condition is
    # waited for where the condition ends (measured: half the speed on an NVIDIA H200).
    while per_k > 1 and (depth // per_k) * (extent // width) < candidate.threads:
        per_k //= 2
    load = per_k
    if per_k == 1 and width <= candidate.vec and side.widest(width, along=False) == width:
        load = width
    return Fetch(side, extent, depth, candidate.threads, width, per_k, load)
