"""A recognised convolution: a sum over taps and its pointwise epilogue."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnjit_studio.compiler.ir.tensor_ir import Axis, Store
from nnjit_studio.compiler.recognize.contraction import Contraction, Operand
from nnjit_studio.space.wasm.conv2d import CONV2D

BATCH, GROUP, CHANNEL, ROW, COLUMN = "b", "g", "o", "y", "x"
"""Variables of the epilogue: image, group, output channel in its group, output row, column."""


@dataclass(frozen=True)
class Conv2d:
    """``out[b, g, o, y, x] = epilogue(sum W[g, o, c, ky, kx] * padded[b, g, c, ...])``.

    Pairs are (vertical, horizontal), in elements.
    """

    data: str
    weights: str
    stage: str
    """A workspace with room for :attr:`staged_elements` float32; empty if the program has none
    (:func:`with_staging` adds it)."""
    batch: int
    groups: int
    channels: int
    """Of one group."""
    out_channels: int
    """Of one group."""
    height: int
    """Of the input without padding."""
    width: int
    """Of the input without padding."""
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]
    stores: tuple[Store, ...]
    """One for each output, over the variables above and the accumulator."""
    labels: tuple[str, ...]
    open: bool = False
    """Whether the extents of its map are one sample of many: loops over them are then written as
    for extents that no tile divides, so that all samples have the same code."""

    @property
    def kind(self) -> str:
        return CONV2D

    @property
    def packed(self) -> None:
        return None

    def tunable(self, dtype: str) -> bool:
        return True

    @property
    def depthwise(self) -> bool:
        """Each output channel reads one input channel alone."""
        return self.channels == 1 and self.groups > 1

    @property
    def taps(self) -> int:
        """Products in one output."""
        return self.channels * math.prod(self.kernel)

    @property
    def flops(self) -> int:
        """Two for each multiply-add; the epilogue is not counted."""
        points = self.batch * self.groups * self.out_channels * self.out_height * self.out_width
        return 2 * points * self.taps

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns of padded input that are read at all."""
        sizes = zip(
            (self.out_height, self.out_width), self.kernel, self.stride, self.dilation, strict=True
        )
        rows, columns = ((out - 1) * s + (k - 1) * d + 1 for out, k, s, d in sizes)
        return rows, columns

    @property
    def staged_elements(self) -> int:
        return self.batch * self.groups * self.channels * math.prod(self.reach)

    @property
    def dims(self) -> tuple[int, ...]:
        """As ``CONV2D_DIMS`` names them."""
        # Uneven padding counts with its mean, rounded up.
        span = self.reach[0] - self.height
        pad = max(self.pad[0], -(-span // 2))
        return (
            self.batch,
            self.groups * self.channels,
            self.height,
            self.width,
            self.groups * self.out_channels,
            *self.kernel,
            # A direction with one output or one tap has stride or dilation 1 for want of another.
            max(self.stride),
            pad,
            max(self.dilation),
            self.groups,
        )

    def contraction(self, m: str) -> Contraction:
        """The view that epilogues are planned with: rows are ``m``, columns are ``x``."""
        extents = {
            BATCH: self.batch,
            GROUP: self.groups,
            CHANNEL: self.out_channels,
            ROW: self.out_height,
        }
        outer = tuple(Axis(v, e) for v, e in extents.items() if e > 1 and v != m)
        nowhere = Operand(self.data, 0, (0,) * len(outer), 0, 0)
        return Contraction(
            batch=outer,
            m=extents[m],
            n=self.out_width,
            k=self.taps,
            m_var=m,
            n_var=COLUMN,
            a=nowhere,
            b=nowhere,
            packable=False,
            epilogue=self.stores,
            labels=self.labels,
        )
