"""The lite space of a convolution on a GPU (docs/webgpu.md, "Convolutions").

A convolution is a product whose rows are output channels and whose columns are pixels: its
candidates are those of :mod:`.matmul`, plus the cost of patches. A depthwise one has rules of
its own, as in :mod:`.matmul_blocks`: a thread keeps ``y0`` rows of ``x0`` pixels, a workgroup is
``x1 / x0`` such tiles, numbered through the image and its channels, and nothing else is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.webgpu.cost import BUSY_THREADS
from nnjit_studio.space.webgpu.matmul import ANY_GPU, MatmulProblem, power_above
from nnjit_studio.space.webgpu.problem import FIXED_REGISTERS, GpuProblem, cheapest
from nnjit_studio.space.webgpu.problem import registers as in_registers
from nnjit_studio.space.webgpu.usage import WIDTH, thread_registers, tile_width

PATCH_INSTRUCTIONS = 8.0
"""For each element of a patch: its place, whether it lies in the image, the selection, and its
share of what all pixels of a tap have in common. Counted in the WGSL, not measured."""

PIXEL_CHOICES = (1, 2, 4, 8)
ROW_CHOICES = (1, 2, 4, 8)
THREAD_CHOICES = (64, 128, 256)
MOST_PRODUCTS = 1024
"""Multiply-adds of a thread, all unrolled: one kernel stays one small function."""
MOST_TAPS = 256
"""Of a depthwise kernel, for the same reason."""
MOST_CANDIDATES = 24
"""How many are in the space of a depthwise convolution, the fastest expected first."""
LOAD_INSTRUCTIONS = 8.0
"""A load of the image with its place, its check and what it waits for, in multiply-adds."""
START_INSTRUCTIONS = 40.0
"""What a thread does once: where its tile is, and the end."""


class Conv2dProblem(MatmulProblem):
    """A convolution as a product: channels times pixels, reduced over taps."""

    @property
    def family(self) -> str:
        return "gpu-conv2d"

    @property
    def few_rows(self) -> bool:
        return False

    @property
    def fetch_cost(self) -> float:
        return PATCH_INSTRUCTIONS

    def registers(self, c: GpuCandidate) -> int:
        # Each pixel that a thread fetches has an address and its bits.
        return thread_registers(c) + 2 * tile_width(c.x0) + FIXED_REGISTERS


@dataclass(frozen=True)
class DepthwiseProblem(GpuProblem):
    """Channels of their own, ``batch`` of them: ``m`` rows of ``n`` pixels, ``k`` taps.

    Pairs are (vertical, horizontal).
    """

    kernel: tuple[int, int]
    stride: int
    dilation: int

    @property
    def few_rows(self) -> bool:
        return False

    @property
    def family(self) -> str:
        return "gpu-depthwise"

    def tiles_of(self, c: GpuCandidate) -> int:
        """Threads with work."""
        return self.batch * -(-self.m // c.y0) * -(-self.n // c.x0)

    def workgroups(self, c: GpuCandidate) -> int:
        return -(-self.tiles_of(c) // c.threads)

    def window(self, c: GpuCandidate) -> tuple[int, int]:
        """Rows and columns of the image that a tile reads at most."""
        return (
            (c.y0 - 1) * self.stride + (self.kernel[0] - 1) * self.dilation + 1,
            (c.x0 - 1) * self.stride + (self.kernel[1] - 1) * self.dilation + 1,
        )

    def registers(self, c: GpuCandidate) -> int:
        taps = min(self.kernel[0], c.y0) * self.kernel[1]
        return c.x0 * c.y0 + self.window(c)[1] + taps + FIXED_REGISTERS

    def shared_bytes(self, c: GpuCandidate) -> int:
        return 0

    def loads(self, c: GpuCandidate) -> int:
        """Loads of the image by one thread."""
        rows, columns = self.window(c)
        wide = c.x0 * self.stride % WIDTH == 0
        return rows * (-(-columns // WIDTH) + 1 if wide else columns)

    def cost(self, c: GpuCandidate) -> float:
        each = math.ceil(self.workgroups(c) / self.gpu.cores)
        resident = min(each, self.blocks_per_core(c)) * c.threads
        idle = math.sqrt(max(1.0, BUSY_THREADS / resident))
        once = self.k + START_INSTRUCTIONS
        return (
            each
            * c.threads
            * idle
            * (c.x0 * c.y0 * self.k + LOAD_INSTRUCTIONS * self.loads(c) + once)
        )


def conv2d_gpu_problem(dims: Sequence[int], gpu: GpuProfile) -> Conv2dProblem | DepthwiseProblem:
    """What the rules look at, of a convolution's dims (``CONV2D_DIMS``)."""
    n, c, h, w, o, kh, kw, stride, pad, dilation, groups = dims
    # The padding of a sequence, an image of one row, is not above it.
    height = 1 if (h, kh) == (1, 1) else (h + 2 * pad - (kh - 1) * dilation - 1) // stride + 1
    width = (w + 2 * pad - (kw - 1) * dilation - 1) // stride + 1
    if c == groups > 1:
        return DepthwiseProblem(
            n * o, height, kh * kw, width, gpu, False, (kh, kw), stride, dilation
        )
    taps = c // groups * kh * kw
    return Conv2dProblem(n * groups, o // groups, taps, height * width, gpu, False)


@lru_cache(maxsize=1024)
def untuned_conv2d(dims: tuple[int, ...]) -> GpuCandidate:
    """Settings that run on every device: the best expected for a GPU of middle size."""
    problem = conv2d_gpu_problem(dims, ANY_GPU)
    if isinstance(problem, DepthwiseProblem):
        found = depthwise_candidates(problem)
        return found[0] if found else GpuCandidate(1, 1, 1, 64, 1, 1)
    return problem.tiles[0] if problem.tiles else GpuCandidate(4, 4, 4, 32, 32, 16)


def depthwise_candidates(p: DepthwiseProblem) -> list[GpuCandidate]:
    """What every rule accepts, the fastest expected first, the best of them."""
    found = (
        GpuCandidate(x0, y0, 1, x0 * threads, y0, 1)
        for x0, y0, threads in product(PIXEL_CHOICES, ROW_CHOICES, THREAD_CHOICES)
    )
    return cheapest(found, p, DEPTHWISE_RULES, MOST_CANDIDATES)


Rule = Callable[[GpuCandidate, DepthwiseProblem], tuple[bool, str]]


def template(c: GpuCandidate, p: DepthwiseProblem) -> tuple[bool, str]:
    """What the template chooses: the tile of a thread, and how many threads there are."""
    ok = (c.r0, c.r1, c.split, c.vec, c.y1) == (1, 1, 1, WIDTH, c.y0)
    ok = ok and c.x0 in PIXEL_CHOICES and c.y0 in ROW_CHOICES
    return ok, f"a thread keeps {c.y0} rows of {c.x0} pixels; r0, r1, split 1, y1 = y0, vec 4"


def image_size(c: GpuCandidate, p: DepthwiseProblem) -> tuple[bool, str]:
    """A tile of twice the image computes padding alone."""
    ok = c.x0 <= power_above(p.n) and c.y0 <= power_above(p.m)
    return ok, f"tile {c.y0}x{c.x0} in {p.m}x{p.n}"


def function_size(c: GpuCandidate, p: DepthwiseProblem) -> tuple[bool, str]:
    """All taps of a tile are unrolled."""
    products = c.x0 * c.y0 * p.k
    ok = products <= MOST_PRODUCTS and p.k <= MOST_TAPS
    return ok, f"{products} of at most {MOST_PRODUCTS} multiply-adds in the unrolled body"


def threads(c: GpuCandidate, p: DepthwiseProblem) -> tuple[bool, str]:
    """Heuristic 5: at most 256 threads, whole warps."""
    ok = c.threads in THREAD_CHOICES and c.threads <= p.threads_limit
    return ok and c.threads % p.gpu.warp == 0, (
        f"Thread_block {c.threads}, a multiple of warps of {p.gpu.warp}, at most {p.threads_limit}"
    )


def registers(c: GpuCandidate, p: DepthwiseProblem) -> tuple[bool, str]:
    """Heuristic 7 without its second half: these kernels wait for memory."""
    ok, text = in_registers(c, p)
    rows, columns = p.window(c)
    return ok, f"{text}; reads {rows}x{columns} for {c.y0}x{c.x0} pixels"


DEPTHWISE_RULES: tuple[Rule, ...] = (template, image_size, function_size, threads, registers)
DEPTHWISE_TOLD: tuple[Rule, ...] = (registers, threads)
