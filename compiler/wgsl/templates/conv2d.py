"""Convolutions in WGSL: a product of weights and patches by tiles, or rows of one channel each.

Rows of the product are output channels, columns the pixels of the output, the reduction runs over
the taps of all channels. Batch and groups are batches of the product. Depthwise convolutions have a
template of their own (:mod:`.depthwise`).
"""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.compiler.ir.affine import linear_expr, linear_form, rewrite
from nnjit_studio.compiler.ir.tensor_ir import Axis, Expr, Load, Program, Store, Var
from nnjit_studio.compiler.recognize.contraction import Contraction, Operand
from nnjit_studio.compiler.recognize.convolution import BATCH, CHANNEL, COLUMN, GROUP, ROW, Conv2d
from nnjit_studio.compiler.wgsl.core.document import KernelDocument
from nnjit_studio.compiler.wgsl.templates.depthwise import depthwise
from nnjit_studio.compiler.wgsl.templates.matmul import tiled
from nnjit_studio.compiler.wgsl.templates.patches import patches_of
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.conv2d import untuned_conv2d

_M, _N = "m", "n"


def conv2d_document(
    program: Program, conv: Conv2d, candidate: GpuCandidate, tier: str
) -> KernelDocument | None:
    """The document of a convolution; None where weights are not float32.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    if program.buffer(conv.weights).dtype != "f32":
        return None
    if conv.depthwise:
        return depthwise(program, conv, candidate)
    return tiled(program, product_of(conv), candidate, patches_of(conv, candidate))


def guess(conv: Conv2d) -> GpuCandidate:
    """Settings for a convolution that nobody tuned, good for any device."""
    return untuned_conv2d(conv.dims)


def product_of(conv: Conv2d) -> Contraction:
    """The convolution as a product whose columns are the pixels of an image.

    B stands for the patches: its strides tell nothing.
    """
    batch = tuple(Axis(v, e) for v, e in ((BATCH, conv.batch), (GROUP, conv.groups)) if e > 1)
    per_group = conv.out_channels * conv.taps
    strides = tuple(per_group if axis.var == GROUP else 0 for axis in batch)
    nowhere = Operand(conv.data, 0, (0,) * len(batch), 0, 1)
    return Contraction(
        batch=batch,
        m=conv.out_channels,
        n=conv.out_height * conv.out_width,
        k=conv.taps,
        m_var=_M,
        n_var=_N,
        a=Operand(conv.weights, 0, strides, conv.taps, 1),
        b=nowhere,
        packable=False,
        epilogue=tuple(_over_pixels(store, conv) for store in conv.stores),
        labels=conv.labels,
    )


def _over_pixels(store: Store, conv: Conv2d) -> Store:
    """A store over row and column as one over the pixel's number."""
    width = conv.out_width
    extents = {
        BATCH: conv.batch,
        GROUP: conv.groups,
        CHANNEL: conv.out_channels,
        ROW: conv.out_height,
        COLUMN: width,
    }
    places: dict[str, Expr] = {
        CHANNEL: Var(_M),
        ROW: Var(_N) // width if width > 1 else Var(_N),
        COLUMN: Var(_N) % width,
    }

    def index(expr: Expr) -> Expr:
        form = linear_form(expr, extents)
        if form is None:
            return rewrite(expr, change)
        constant, terms = form
        row, column = terms.get(ROW, 0), terms.get(COLUMN, 0)
        step = row if width == 1 else column
        if min(conv.out_height, width) > 1 and row != column * width:
            return rewrite(expr, change)
        rest = {_M if v == CHANNEL else v: c for v, c in terms.items() if v not in (ROW, COLUMN)}
        return linear_expr((constant, rest | ({_N: step} if step else {})))

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Load):
            return Load(expr.buffer, index(expr.index))
        return places.get(expr.name) if isinstance(expr, Var) else None

    return replace(store, index=index(store.index), value=rewrite(store.value, change))
