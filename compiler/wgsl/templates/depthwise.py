"""Depthwise convolutions in WGSL: a thread makes ``y0`` rows of ``x0`` pixels of one channel.

Each row of the image is loaded once for all rows of the tile that it is part of, in vectors of
four where the image's width and the tile's step allow, and its elements serve all taps that meet
them. Threads are numbered through all tiles, neighbours of a row first, so small images fill
workgroups too; a workgroup has ``x1 / x0`` by ``y1 / y0`` of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.rewrite import substitute_store
from nnjit_studio.compiler.ir.tensor_ir import Program, Var
from nnjit_studio.compiler.recognize.convolution import CHANNEL, COLUMN, GROUP, ROW, Conv2d
from nnjit_studio.compiler.wgsl.core.document import KernelDocument, Shader
from nnjit_studio.compiler.wgsl.core.finish import Finish
from nnjit_studio.compiler.wgsl.core.syntax import moved, plus, times, vector
from nnjit_studio.compiler.wgsl.templates.matmul import (
    batch_axes,
    check_bindings,
    check_threads,
    folded,
)
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.conv2d import MOST_TAPS
from nnjit_studio.space.webgpu.usage import WIDTH, tile_width

MAX_PRODUCTS = 4096
"""Multiply-adds of a thread, all unrolled."""


def depthwise(program: Program, conv: Conv2d, candidate: GpuCandidate) -> KernelDocument:
    """The kernel of a depthwise convolution.

    Raises
    ------
    CompileError
        When the candidate does not fit this convolution or any device.
    """
    check_threads(candidate, candidate.threads)
    if conv.taps > MOST_TAPS:
        raise CompileError(
            f"The kernel has {conv.taps} taps, more than {MOST_TAPS}.", "Use the default schedule."
        )
    products = candidate.x0 * candidate.y0 * conv.taps
    if products > MAX_PRODUCTS or candidate.x0 % tile_width(candidate.x0) or candidate.x0 == 3:
        raise CompileError(
            f"A tile of {candidate.y0}x{candidate.x0} pixels is no tile of this kernel.",
            f"Use x0 of 1, 2 or a multiple of 4, and at most {MAX_PRODUCTS} multiply-adds.",
        )
    tile = _Tile(conv, candidate)
    c = replace(
        conv.contraction(ROW),
        m_var="m",
        n_var="n",
        epilogue=tuple(
            substitute_store(store, {ROW: Var("m"), COLUMN: Var("n")}) for store in conv.stores
        ),
    )
    finish = Finish(program, c, tile.width)
    shader = Shader()
    shader.bind(finish.argument(conv.weights), "W", "array<f32>")
    shader.bind(finish.argument(conv.data), "D", f"array<{vector(tile.load)}>")
    guards = [f"m >= {c.m}u"] * bool(c.m % candidate.y0)
    guards += [f"n >= {c.n}u"] * bool(c.n % candidate.x0)
    finish.declare(shader, guards)
    check_bindings(shader)
    channels = c.batches
    count = channels * tile.across * tile.down
    workgroups = folded(-(-count // candidate.threads))
    flat = plus(
        times("wg.y", workgroups[0] * candidate.threads), times("wg.x", candidate.threads), "li"
    )
    plane = plus(
        times("b", conv.groups) if conv.batch > 1 else "0u", GROUP if conv.groups > 1 else "0u"
    )
    kernel = plus(times(GROUP, conv.out_channels), CHANNEL if conv.out_channels > 1 else "0u")
    body = [
        f"let at = {flat};",
        f"if (at >= {count}u) {{ return; }}",
        *batch_axes(c, f"(at / {tile.across * tile.down}u)"),
        f"let ty = at / {tile.across}u % {tile.down}u;",
        f"let tx = at % {tile.across}u;",
        f"let taps = {times(f'({kernel})', conv.taps)};",
        f"let plane = {times(f'({plane})', conv.height * conv.width // tile.load)};",
        *tile.body(),
    ]
    for y in range(candidate.y0):
        for j in range(candidate.x0 // tile.width):
            m = plus(times("ty", candidate.y0), str(y))
            n = plus(times("tx", candidate.x0), str(j * tile.width))
            body += finish.call("finish", m, n, f"c{y}_{j}")
    return KernelDocument((shader.dispatch(candidate.threads, workgroups, body),))


@dataclass(frozen=True)
class _Tile:
    """The rows and pixels of a thread."""

    conv: Conv2d
    c: GpuCandidate

    @property
    def width(self) -> int:
        """Elements of a vector of sums."""
        return tile_width(self.c.x0)

    @property
    def across(self) -> int:
        """Tiles of a row of the output."""
        return -(-self.conv.out_width // self.c.x0)

    @property
    def down(self) -> int:
        return -(-self.conv.out_height // self.c.y0)

    @property
    def load(self) -> int:
        """Elements of one load of the image."""
        step = self.c.x0 * self.conv.stride[1]
        wide = self.c.vec == WIDTH and self.conv.width % WIDTH == 0 and step % WIDTH == 0
        return WIDTH if wide else 1

    def body(self) -> list[str]:
        """All multiply-adds, one row of the image after another."""
        conv, kind = self.conv, vector(self.width)
        lines = [
            f"var c{y}_{j} = {kind}();"
            for y in range(self.c.y0)
            for j in range(self.c.x0 // self.width)
        ]
        meetings: dict[int, list[tuple[int, int]]] = {}
        for y in range(self.c.y0):
            for ky in range(conv.kernel[0]):
                row = y * conv.stride[0] + ky * conv.dilation[0]
                meetings.setdefault(row, []).append((y, ky))
        loaded: set[int] = set()
        for row, met in sorted(meetings.items()):
            lines += self._row(row)
            # Late, for then only the taps of a few rows are in registers.
            lines += [line for _, ky in met if ky not in loaded for line in self._taps(ky)]
            loaded |= {ky for _, ky in met}
            for y, ky in met:
                lines += self._products(row, y, ky)
        return lines

    def _taps(self, ky: int) -> list[str]:
        """Loads of a row of the kernel."""
        width = self.conv.kernel[1]
        return [
            f"let w{t} = W[{plus('taps', str(t))}];" for t in range(ky * width, (ky + 1) * width)
        ]

    def _columns(self) -> list[int]:
        """Columns of the image that a tile's row reads, from its first pixel on."""
        conv = self.conv
        return sorted(
            {
                x * conv.stride[1] + kx * conv.dilation[1] - conv.pad[1]
                for x in range(self.c.x0)
                for kx in range(conv.kernel[1])
            }
        )

    def _row(self, row: int) -> list[str]:
        """Loads of a row: ``v<row>_<i>`` is the i-th of its columns, counted with its padding."""
        conv, load = self.conv, self.load
        first = row - conv.pad[0]
        last = (self.down - 1) * self.c.y0 * conv.stride[0] + first
        step = self.c.x0 * conv.stride[1] // load
        checks = [f"y{row} < {conv.height}u"] * (first < 0 or last >= conv.height)
        lines = [f"let y{row} = {moved(times('ty', self.c.y0 * conv.stride[0]), first)};"]
        pieces: dict[int, list[int]] = {}
        for column in self._columns():
            pieces.setdefault(column // load, []).append(column % load)
        for piece, lanes in pieces.items():
            name = f"p{row}_{piece + conv.pad[1]}"
            x = moved(times("tx", step), piece)
            far = (self.across - 1) * step + piece >= conv.width // load
            valid = [*checks, *[f"{x} < {conv.width // load}u"] * (piece < 0 or far)]
            place = plus("plane", times(f"y{row}", conv.width // load), x)
            one = f".{'xyzw'[lanes[0]]}" if load > 1 and len(lanes) == 1 else ""
            value, zero = f"D[{place}]{one}", "0.0" if load == 1 or one else "vec4<f32>()"
            if valid:  # an index outside the buffer is WebGPU's to clamp
                value = f"select({zero}, {value}, {' && '.join(valid)})"
            lines.append(f"let {name} = {value};")
            for lane in lanes:
                part = name if load == 1 or one else f"{name}.{'xyzw'[lane]}"
                column = piece * load + lane + conv.pad[1]
                lines.append(f"let v{row}_{column} = {part};")
        return lines

    def _products(self, row: int, y: int, ky: int) -> list[str]:
        conv, kind, lines = self.conv, vector(self.width), []
        for j in range(self.c.x0 // self.width):
            for kx in range(conv.kernel[1]):
                pixels = (
                    (j * self.width + e) * conv.stride[1] + kx * conv.dilation[1]
                    for e in range(self.width)
                )
                value = f"{kind}({', '.join(f'v{row}_{x}' for x in pixels)})"
                weight = f"{kind}(w{ky * conv.kernel[1] + kx})"
                lines.append(f"c{y}_{j} = fma({weight}, {value}, c{y}_{j});")
        return lines
