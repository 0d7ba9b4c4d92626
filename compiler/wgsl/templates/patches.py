"""Patches of an image as the operand B of a product: fetched by taps, never laid out in memory.

Row ``k`` of this matrix is one tap, ``(channel, ky, kx)``, column ``n`` one pixel of the output,
counted along its rows. A vector in workgroup memory holds pixels that are a quarter of the tile
apart, not neighbours: then neighbouring threads load, and later store, neighbouring pixels,
whatever the padding, the stride and the width of the image, and no vector has to be aligned.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.recognize.convolution import Conv2d
from nnjit_studio.compiler.wgsl.core.operand import Fetch, Side
from nnjit_studio.compiler.wgsl.core.syntax import indented, moved, plus, times
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.usage import tile_width

_BITS = 32


@dataclass(frozen=True)
class Patches(Fetch):
    """How a workgroup fetches a tile of patches.

    A pixel keeps the address of its first tap and one bit for each row and column of taps
    that lies inside the image. What is loaded elsewhere counts as zero; where that is outside the
    buffer, WebGPU reads something inside. Numbers left of or above the image wrap, as u32 does,
    and are beyond every extent.
    """

    conv: Conv2d

    @property
    def lane_step(self) -> int:
        return self._vectors

    @property
    def vector_step(self) -> int:
        return 1

    @property
    def _vectors(self) -> int:
        """Vectors of one step of k."""
        return self.extent // self.width

    @property
    def _same_pixels(self) -> bool:
        """Whether a thread fetches the same pixels in each of its turns."""
        return self.threads % self._vectors == 0

    def places(self, group: str) -> list[str]:
        name, across, lines = self.side.name, self._vectors, []
        for q in range(self.turns):
            piece = plus("li", str(q * self.threads))
            k = f"({piece}) / {across}u"
            if self._partial(q):  # threads that have nothing to fetch read what others read
                k = f"min({k}, {self.depth - 1}u)"
            lines.append(f"let k{name}{q} = {k};")
            if q and self._same_pixels:
                lines.append(f"let own{name}{q} = own{name}0;")
                continue
            lines.append(f"let own{name}{q} = ({piece}) % {across}u;")
            for i in range(self.width):
                lines += self._pixel(group, q, i)
        return lines

    def _pixel(self, group: str, turn: int, lane: int) -> list[str]:
        """Address and bits of one pixel of a thread."""
        c, side = self.conv, self.side
        here = f"{side.name}{turn}_{lane}"
        pixel = plus(times(group, self.extent), f"own{side.name}{turn}", str(lane * self._vectors))
        if side.extent % self.extent:
            pixel = f"min({pixel}, {side.extent - 1}u)"
        base = plus(*(times(var, stride) for var, stride in side.batch), str(side.offset))
        top = moved(times(f"(pixel{here} / {c.out_width}u)", c.stride[0]), -c.pad[0])
        left = moved(times(f"(pixel{here} % {c.out_width}u)", c.stride[1]), -c.pad[1])
        lines = [
            f"let pixel{here} = {pixel};",
            f"let top{here} = {top};",
            f"let left{here} = {left};",
            f"let at{here} = {plus(base, times(f'top{here}', c.width), f'left{here}')};",
        ]
        rows, columns = padded(c)
        bits = [
            f"select(0u, {1 << bit}u, {moved(place, tap)} < {extent}u)"
            for place, extent, bit, tap in (
                *((f"top{here}", c.height, i, i * c.dilation[0]) for i in range(rows)),
                *((f"left{here}", c.width, rows + i, i * c.dilation[1]) for i in range(columns)),
            )
        ]
        return [*lines, f"let inside{here} = {' | '.join(bits)};"] if bits else lines

    def fetch(self, step: str) -> list[str]:
        c, side, lines = self.conv, self.side, []
        height, width = c.kernel
        taps, rest = height * width, side.k % self.depth
        rows, columns = padded(c)
        for q in range(self.turns):
            pixels = 0 if self._same_pixels else q
            body = [f"let k = {plus(times(step, self.depth), f'k{side.name}{q}')};"]
            k = "k"
            if rest:
                body.append(f"let known = min(k, {side.k - 1}u);")
                k = "known"
            body += [
                f"let ky = {k} % {taps}u / {width}u;",
                f"let kx = {k} % {width}u;",
                "let tap = "
                + plus(
                    times(f"({k} / {taps}u)", c.height * c.width),
                    times("ky", c.dilation[0] * c.width),
                    times("kx", c.dilation[1]),
                )
                + ";",
            ]
            for i in range(self.width):
                here = f"{side.name}{pixels}_{i}"
                shifted = [f"(inside{here} >> ky)"] * bool(rows)
                shifted += [f"(inside{here} >> {moved('kx', rows)})"] * bool(columns)
                valid = [f"({' & '.join(shifted)} & 1u) == 1u"] if shifted else []
                valid += [f"k < {side.k}u"] * bool(rest)
                value = f"{side.name}[at{here} + tap]"
                if valid:
                    value = f"select(0.0, {value}, {' && '.join(valid)})"
                body.append(f"{self._register(q, i)} = {value};")
            lines += ["{", *indented(body), "}"]
        return lines


def padded(c: Conv2d) -> tuple[int, int]:
    """Rows and columns of taps of which some may lie outside the image; 0 where none can."""

    def some(axis: int, extent: int) -> int:
        beyond = c.pad[axis] > 0 or c.reach[axis] - c.pad[axis] > extent
        return c.kernel[axis] if beyond else 0

    return some(0, c.height), some(1, c.width)


def patches_of(c: Conv2d, candidate: GpuCandidate) -> Patches:
    """The way to fetch ``x1`` pixels by ``r1`` taps.

    Raises
    ------
    CompileError
        When the kernel has more rows and columns of taps than a word has bits.
    """
    if sum(padded(c)) > _BITS:
        raise CompileError(
            f"A kernel of {c.kernel[0]}x{c.kernel[1]} has more than {_BITS} rows and columns.",
            "Use the default schedule.",
        )
    plane = c.height * c.width
    images = (("b", c.batch, c.groups * c.channels * plane), ("g", c.groups, c.channels * plane))
    batch = tuple((var, stride) for var, extent, stride in images if extent > 1)
    side = Side("B", c.data, 0, batch, 1, c.out_height * c.out_width, plane, c.taps)
    width = tile_width(candidate.x0)
    return Patches(side, candidate.x1, candidate.r1, candidate.threads, width, 1, 1, c)
