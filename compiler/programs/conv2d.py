"""The program of a convolution from its dims, in the form that the importer gives it."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.programs.parts import Spelling, axes, epilogue_of, f32
from nnjit_studio.errors import UserError
from nnjit_studio.space.wasm.conv2d import CONV2D, CONV2D_DIMS


def conv2d_program(dims: Sequence[int], epilogue: Sequence[str] = ()) -> Program:
    """Padding into a workspace, the sum over taps, then the epilogue.

    Parameters
    ----------
    dims
        As ``CONV2D_DIMS`` names them.
    epilogue
        ``bias``, ``residual`` or one of :data:`.POINTWISE`, in order.

    Raises
    ------
    UserError
        When the dims are no convolution.
    """
    n, c, h, w, o, kh, kw, stride, pad, dilation, groups = dims
    ph, pw = h + 2 * pad, w + 2 * pad
    oh = (ph - (kh - 1) * dilation - 1) // stride + 1
    ow = (pw - (kw - 1) * dilation - 1) // stride + 1
    if stride < 1 or dilation < 1 or groups < 1 or c % groups or o % groups or min(oh, ow) < 1:
        raise UserError(
            f"{'x'.join(map(str, dims))} is no convolution.",
            "Groups divide both channels, and the kernel fits into the padded input.",
        )
    points = (("i0", n), ("i1", o), ("i2", oh), ("i3", ow))
    inputs = [
        Buffer("in0", "f32", (n, c, h, w), "input"),
        Buffer("in1", "f32", (o, c // groups, kh, kw), "input", True),
    ]
    spaces: list[Buffer] = []
    stages: list[Stage] = []
    source = "in0"
    if pad:
        source = "ws0"
        spaces.append(Buffer(source, "f32", (n, c, ph, pw), "workspace"))
        stages.append(_pad((n, c, h, w), pad))
    target = f"ws{len(spaces)}" if epilogue else "out0"
    taps = (("i4", c // groups), ("i5", kh), ("i6", kw))
    channel = _flat((("i4", c // groups, 1),))
    if groups > 1:
        group: Expr = Var("i1") // (o // groups)
        group = Var("i1") if o == groups else group
        first = group * (c // groups) if c > groups else group
        channel = first + channel if c > groups else first
    row = _flat((("i2", oh, stride), ("i5", kh, dilation)))
    column = _flat((("i3", ow, stride), ("i6", kw, dilation)))
    index: Expr = channel * (ph * pw)
    if n > 1:
        index = Var("i0") * (c * ph * pw) + index
    index = index + row * pw + column
    product = Load(source, index) * Load("in1", _dense((("i1", o), *taps)))
    place = _dense(points)
    stages.append(
        Stage(
            "conv2d_nchw",
            (*axes(points), *(Axis(v, e, "reduce") for v, e in taps if e > 1)),
            (Store(target, place, Load(target, place) + product),),
            (Store(target, place, f32(0.0)),),
        )
    )
    out = Buffer("out0", "f32", (n, o, oh, ow), "output")
    if epilogue:
        bias = "i1", (1, o, 1, 1)
        value, more = epilogue_of(epilogue, Load(target, place), out.shape, bias, len(inputs))
        inputs += more
        stages.append(Stage("tail", axes(points), (Store("out0", place, value),)))
        spaces.append(Buffer(target, "f32", out.shape, "workspace"))
    return Program("_".join((CONV2D, *epilogue)), (*inputs, out, *spaces), tuple(stages))


def _pad(shape: tuple[int, int, int, int], pad: int) -> Stage:
    n, c, h, w = shape
    points = (("i0", n), ("i1", c), ("i2", h + 2 * pad), ("i3", w + 2 * pad))
    inside: Expr | None = None
    for var, extent in (("i2", h), ("i3", w)):
        after = Binary("le", Const(pad, "i64"), Cast(Var(var), "i64"))
        before = Binary("lt", Cast(Var(var), "i64"), Const(extent + pad, "i64"))
        here = Binary("and", after, before)
        inside = here if inside is None else Binary("and", inside, here)
    assert inside is not None
    source = _flat((("i0", n, c * h * w), ("i1", c, h * w), ("i2", 2, w), ("i3", 2, 1)))
    load = Load("in0", source - (pad * w + pad))
    store = Store("ws0", _dense(points), Select(inside, load, f32(0.0)))
    return Stage("pad_temp", axes(points), (store,))


def _dense(points: Sequence[tuple[str, int]]) -> Expr:
    """Row-major index over the points."""
    terms, step = [], 1
    for var, extent in reversed(points):
        terms.append((var, extent, step))
        step *= extent
    return _flat(tuple(reversed(terms)))


def _flat(terms: Sequence[tuple[str, int, int]]) -> Expr:
    """Sum of variables times steps; those of extent 1 are 0."""
    total: Expr | None = None
    for var, extent, step in terms:
        if extent > 1:
            term: Expr = Var(var) if step == 1 else Var(var) * step
            total = term if total is None else total + term
    return int32(0) if total is None else total


def _spelt(kind: str, dims: tuple[int, ...], epilogue: tuple[str, ...]) -> Program:
    return conv2d_program(dims, epilogue)


CONVOLUTIONS = (
    Spelling(
        CONV2D,
        CONV2D_DIMS,
        _spelt,
        "NCHW, constant weights; no +gelu",
        ("bias", "relu", "residual"),
    ),
)
