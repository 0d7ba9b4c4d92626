"""A candidate for a kernel that nobody has tuned: one good tile, whatever the device.

What tuning finds on a given device is better by tens of percent, what the
schedule of any program makes of a sum of products is worse by five to ten times.
"""

from __future__ import annotations

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.conv2d import Conv2d
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.schedule.matmul import WIDEST_PANEL
from nnjit_studio.records.candidate import Candidate

_COLUMNS, _ROWS, _UNROLL = 8, 6, 4  # twelve accumulators: they fit sixteen vector registers
_DOT_ROWS, _DOT_COLUMNS, _DOT_COLUMNS_OF_ROW = 2, 6, 8  # of dot products: 15 registers at most
_DOT_COLUMNS_WITH_EPILOGUE = LANES  # it works on whole vectors of results
_INT8_ROWS, _INT8_UNROLL = 3, 2  # a sum has two registers
_4BIT_ROWS, _4BIT_UNROLL = 6, 1  # decoded words serve six rows
_DEPTHWISE_ROWS = 4
_BLOCKS = 4  # of a convolution's rows: work for some threads
_MAX_STEP = 100  # SIMD operations of one kernel row of taps


def first_guess(subject: Contraction | Quantised | Conv2d) -> Candidate | None:
    """Settings that suit most shapes, or None where no template applies."""
    if isinstance(subject, Contraction):
        return _matmul(subject)
    if isinstance(subject, Quantised):
        return _quantised(subject)
    return _depthwise(subject) if subject.depthwise else _convolution(subject)


def _matmul(c: Contraction) -> Candidate | None:
    if c.along_k:
        return _dot(c)
    if not c.packable and c.b.column != 1:
        return None
    rows, columns = min(c.m, _ROWS), _panel(c)
    return Candidate(columns, rows, min(c.k, _UNROLL), columns, rows, c.k, "nm", c.packable)


def _quantised(q: Quantised) -> Candidate | None:
    c = q.contraction
    if c.batch:
        return None
    rows, columns = min(c.m, _4BIT_ROWS if q.block else _INT8_ROWS), _panel(c)
    unroll = _4BIT_UNROLL if q.block else _INT8_UNROLL
    return Candidate(columns, rows, unroll, columns, rows, c.k, "nm", True)


def _panel(c: Contraction) -> int:
    """Columns of a tile; a row vector reads B once: wide panels are long runs of it."""
    columns = min(WIDEST_PANEL if c.m == 1 else _COLUMNS, -(-c.n // LANES) * LANES)
    return LANES if WIDEST_PANEL % columns else columns


def _dot(c: Contraction) -> Candidate:
    rows = min(c.m, _DOT_ROWS)
    columns = _DOT_COLUMNS_WITH_EPILOGUE if c.labels else _DOT_COLUMNS
    columns = _DOT_COLUMNS_OF_ROW if rows == 1 else columns
    columns = columns if columns <= c.n else LANES
    return Candidate(columns, rows, _UNROLL, columns, rows, c.k, "nm", False)


def _convolution(conv: Conv2d) -> Candidate:
    # A short last vector costs less than reading the weights once more.
    pixels = min(_COLUMNS, -(-conv.out_width // LANES) * LANES)
    rows = min(conv.out_channels, _ROWS)
    vectors = pixels // LANES
    step = conv.kernel[0] * conv.kernel[1] * (vectors + rows * (1 + vectors))
    unroll = conv.kernel[0] if step <= _MAX_STEP * conv.kernel[0] else 1
    block = -(-conv.out_height // _BLOCKS)
    return Candidate(pixels, rows, unroll, block, rows, conv.taps, "mn", False)


def _depthwise(conv: Conv2d) -> Candidate:
    pixels, rows = min(_COLUMNS, _widest(conv)), min(conv.out_height, _DEPTHWISE_ROWS)
    return Candidate(pixels, rows, 1, conv.out_height, rows, conv.taps, "mn", False)


def _widest(conv: Conv2d) -> int:
    return max(LANES, conv.out_width // LANES * LANES)
