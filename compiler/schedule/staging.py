"""Staging of a convolution's input: padded, columns sorted so that taps read neighbours.

A row of the stage holds the columns that are read, first those that a
horizontal stride of s reaches from column 0, then those from column 1, and so
on to s - 1 (phases): the pixels that a tap meets along an output row always
stand side by side. Only what is read is kept, so the stage is never larger
than the padded input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.loops import For, Let, Put, Statement, When
from nnjit_studio.compiler.ir.rewrite import int32, plus, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Const, Expr, Load, Store, Var
from nnjit_studio.compiler.recognize.convolution import BATCH, Conv2d
from nnjit_studio.errors import CompileError

STAGED_ROW, STAGED_CHANNEL, STAGED_COLUMN = "$row", "$channel", "$column"


@dataclass(frozen=True)
class Staging:
    """Where elements of the stage stand; steps in elements."""

    conv: Conv2d
    by_channel: bool
    """Whether channels are outermost (a plane each) or inside the rows."""
    single: bool = False
    """Whether columns are filled one by one: rows may be shorter than a vector."""

    @property
    def row_step(self) -> int:
        return self.width if self.by_channel else self.width * self.channels

    @property
    def channel_step(self) -> int:
        return self.width * self.conv.reach[0] if self.by_channel else self.width

    @property
    def image_step(self) -> int:
        return math.prod(self.conv.reach) * self.channels

    @property
    def channels(self) -> int:
        return self.conv.groups * self.conv.channels

    @property
    def width(self) -> int:
        return self.conv.reach[1]

    def phase_width(self, phase: int) -> int:
        """Columns of one phase."""
        return max(0, -(-(self.width - phase) // self.conv.stride[1]))

    def column(self, tap: int) -> int:
        """Offset in a row of what the tap reads for output column 0."""
        shift, phase = divmod(tap * self.conv.dilation[1], self.conv.stride[1])
        return sum(self.phase_width(p) for p in range(phase)) + shift

    def fill(self, begin: Expr, end: Expr) -> list[Statement]:
        """Fill rows ``begin`` to ``end`` of all channels, or of ``STAGED_CHANNEL``.

        The variable ``b`` must be bound, and ``STAGED_CHANNEL`` if channels
        are outermost.

        Raises
        ------
        CompileError
            When the program has no workspace for the stage.
        """
        conv = self.conv
        if not conv.stage:
            raise CompileError(
                "The convolution has no workspace for its rearranged input.",
                "Import the model again, or use the default schedule.",
            )
        inside, outside = self._copies(), self._zeros()
        top, bottom = conv.pad[0], conv.reach[0] - conv.pad[0] - conv.height
        row: list[Statement] = inside
        if top > 0 or bottom > 0:
            before = Binary("le", int32(top), Var(STAGED_ROW))
            after = Binary("lt", Var(STAGED_ROW), int32(top + conv.height))
            row = [When(Binary("and", before, after), inside, outside)]
        return [For(STAGED_ROW, begin, end, 1, row)]

    def fill_columns(self, first: Expr, end: Expr) -> list[Statement]:
        """Fill what the output columns ``first`` to ``end`` of an image of a single row read.

        The variables are those of :meth:`fill`.
        """
        body: list[Statement] = []
        for phase, low, high, store in self._spans():
            # Taps of a phase read from their output's column on, as far as the last of them.
            taps = (
                divmod(tap * self.conv.dilation[1], self.conv.stride[1])
                for tap in range(self.conv.kernel[1])
            )
            reach = max((shift for shift, of in taps if of == phase), default=None)
            if reach is None or low >= high:
                continue
            begin = Binary("max", first, int32(low))
            last = Binary("min", plus(end, reach), int32(high))
            copies: list[Statement] = [For(STAGED_COLUMN, begin, last, 1, [Put((store,))])]
            body.append(When(Binary("lt", begin, last), copies, []))
        body = [For(STAGED_CHANNEL, int32(0), int32(self.channels), 1, body)]
        return [Let(STAGED_ROW, int32(0), body)]

    def _copies(self) -> list[Statement]:
        body: list[Statement] = []
        for _, begin, end, store in self._spans():
            body += self._span(begin, end, store)
        if self.by_channel:
            return body
        return [For(STAGED_CHANNEL, int32(0), int32(self.channels), 1, body)]

    def _spans(self) -> Iterator[tuple[int, int, int, Store]]:
        """Each phase, and what is stored in its columns from one to another: zeros, or a copy."""
        conv = self.conv
        area = conv.height * conv.width
        start = 0
        for phase in range(conv.stride[1]):
            step, count = conv.stride[1], self.phase_width(phase)
            # Column j of the phase is column j * step + phase - left of the input.
            shift = phase - conv.pad[1]
            low = min(count, max(0, -(shift // step)))
            high = max(low, min(count, (conv.width - 1 - shift) // step + 1))
            source = self._sum(
                (Var(BATCH), area * self.channels),
                (Var(STAGED_CHANNEL), area),
                (plus(Var(STAGED_ROW), -conv.pad[0]), conv.width),
                (Var(STAGED_COLUMN), step),
            )
            place = self._place(start)
            zero = Store(conv.stage, place, Const(0.0, "f32"))
            copy = Store(conv.stage, place, Load(conv.data, plus(source, shift)))
            for begin, end, store in ((0, low, zero), (low, high, copy), (high, count, zero)):
                yield phase, begin, end, store
            start += count

    def _zeros(self) -> list[Statement]:
        zeros = self._span(
            0, self.row_step, Store(self.conv.stage, self._place(0), Const(0.0, "f32"))
        )
        # A row of all channels is contiguous where channels stand inside the rows.
        return zeros if self.by_channel else [Let(STAGED_CHANNEL, int32(0), zeros)]

    def _place(self, start: int) -> Expr:
        place = self._sum(
            (Var(BATCH), self.image_step),
            (Var(STAGED_CHANNEL), self.channel_step),
            (Var(STAGED_ROW), self.row_step),
            (Var(STAGED_COLUMN), 1),
        )
        return plus(place, start)

    def _sum(self, *terms: tuple[Expr, int]) -> Expr:
        parts = [times(e, c) for e, c in terms if e != Var(BATCH) or self.conv.batch > 1]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def _span(self, begin: int, end: int, store: Store) -> list[Statement]:
        """The store for every column from begin to end; the last four may overlap those before."""
        if self.single or end - begin < LANES:
            return [For(STAGED_COLUMN, int32(begin), int32(end), 1, [Put((store,))])]
        whole = begin + (end - begin) // LANES * LANES
        four: list[Statement] = [Put((store,), STAGED_COLUMN)]
        body: list[Statement] = [For(STAGED_COLUMN, int32(begin), int32(whole), LANES, four)]
        if whole < end or self.conv.open:
            body.append(Let(STAGED_COLUMN, int32(end - LANES), four))
        return body
