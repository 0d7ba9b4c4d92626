"""Recogniser of convolutions: padding, a sum over taps, and pointwise stages behind it.

TVM makes of ONNX's Conv a stage that pads into a workspace (none without
padding), the sum over ``(channel, ky, kx)``, and pointwise stages. The sum is
read with the parts that recognise matmuls; a group is a digit of its own in
the output channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import (
    LinearForm,
    linear_expr,
    linear_form,
    loads,
    rewrite,
    walk,
)
from nnjit_studio.compiler.ir.rewrite import map_stores, substitute_store
from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Expr, Load, Program, Store, Var
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR
from nnjit_studio.compiler.recognize.convolution import BATCH, CHANNEL, COLUMN, GROUP, ROW, Conv2d
from nnjit_studio.compiler.recognize.labels import epilogue_labels
from nnjit_studio.compiler.recognize.sums import Fused, SumOfProducts, fuse, sum_of_products
from nnjit_studio.compiler.recognize.zero_padding import Padding, padding_of, strides_of


def with_staging(program: Program) -> Program:
    """The program with a workspace for the convolution's rearranged input, if it lacks one."""
    found = recognize_conv2d(program)
    if found is None or found.stage:
        return program
    names = {b.name for b in program.buffers}
    name = next(n for i in range(len(names) + 1) if (n := f"ws{i}") not in names)
    extra = Buffer(name, "f32", (found.staged_elements,), "workspace")
    return replace(program, buffers=(*program.buffers, extra))


def recognize_conv2d(program: Program) -> Conv2d | None:
    """Read a program as a two-dimensional convolution over NCHW, if it is one.

    One over a sequence, NCW or in a single column, counts as one over images of a single row.

    Returns
    -------
    Conv2d or None
        None when the sum, the padding or a later stage has another form.
    """
    program = _with_rows(program)
    padding = padding_of(program) if len(program.stages) > 1 else None
    stages = program.stages[1:] if padding else program.stages
    if not stages or not stages[0].init:
        return None
    # The padded copy counts as an input while the sum is read.
    padded = padding.target if padding else ""
    buffers = tuple(replace(b, role="input") if b.name == padded else b for b in program.buffers)
    split = _with_groups(replace(program, buffers=buffers, stages=stages))
    if split is None:
        return None
    total = sum_of_products(split, split.stages[0])
    fused = fuse(split, total) if total is not None else None
    if total is None or fused is None:
        return None
    return _geometry(program, split, total, fused, padding)


def _with_rows(program: Program) -> Program:
    """Tensors of three dimensions, or of one column, as images of one row: the same elements in the
    same order, along which kernels have their vectors."""
    column = all(b.shape[3] == 1 for b in program.buffers if len(b.shape) == 4)
    turned = (3, 4) if column else (3,)
    return replace(
        program,
        buffers=tuple(
            replace(b, shape=(*b.shape[:2], 1, b.shape[2])) if len(b.shape) in turned else b
            for b in program.buffers
        ),
    )


def _with_groups(program: Program) -> Program | None:
    """The sum's output channel as two variables, group and channel in the group."""
    stage = program.stages[0]
    extents = stage.extents
    forms = [
        (load, linear_form(load.index, extents))
        for load in (e for s in stage.body for e in walk(s.value) if isinstance(e, Load))
        if len(program.buffer(load.buffer).shape) == 4
        and program.buffer(load.buffer).role == "input"
    ]
    if len(forms) != 2:
        return None
    for (load, form), (other, _) in (forms, forms[::-1]):
        shape = program.buffer(load.buffer).shape
        data = program.buffer(other.buffer).shape
        if form is None or shape[0] < 2 or data[1] <= shape[1]:
            continue
        groups, rest = divmod(data[1], shape[1])
        var = next(
            (v for v, c in form[1].items() if c == math.prod(shape[1:]) and extents[v] == shape[0]),
            "",
        )
        if rest or not var or shape[0] % groups:
            continue
        size = shape[0] // groups
        return _split(program, var, groups, size)
    return program


def _split(program: Program, var: str, groups: int, size: int) -> Program:
    stage = program.stages[0]
    position: Expr = Var(f"{var}g")
    if size > 1:
        position = position * size
        position = position + Var(f"{var}o")

    parts = (Axis(f"{var}g", groups), *((Axis(f"{var}o", size),) if size > 1 else ()))
    axes = tuple(p for a in stage.axes for p in (parts if a.var == var else (a,)))
    first = map_stores(stage, lambda s: substitute_store(s, {var: position}))
    return replace(program, stages=(replace(first, axes=axes), *program.stages[1:]))


@dataclass(frozen=True)
class _Points:
    """Output positions: by variable the step of the flat position, and the extent."""

    places: dict[str, tuple[int, int]]
    axes: Mapping[str, int]  # of the fused program

    @property
    def name(self) -> dict[str, str]:
        """The variable of each axis of the fused program."""
        return {f"p{step}": v for v, (step, extent) in self.places.items() if extent > 1}

    @property
    def extents(self) -> dict[str, int]:
        return {v: extent for v, (_, extent) in self.places.items() if extent > 1}

    @property
    def complete(self) -> bool:
        """Whether these are the axes that the program has."""
        name = self.name
        return {name.get(p): e for p, e in self.axes.items()} == self.extents


def _geometry(
    program: Program, split: Program, total: SumOfProducts, fused: Fused, padding: Padding | None
) -> Conv2d | None:
    out = split.buffer(total.target.buffer).shape
    weights, data = fused.a, fused.b
    if len(out) != 4 or {len(split.buffer(v.buffer).shape) for v in (weights, data)} != {4}:
        return None
    inner = {f"p{s}" for s, e in ((1, out[3]), (out[3], out[2])) if e > 1}
    if inner & set(weights.form[1]):
        weights, data = data, weights
    kernels, image = split.buffer(weights.buffer).shape, split.buffer(data.buffer).shape
    groups, rest = divmod(image[1], kernels[1])
    if rest or groups < 1 or kernels[0] != out[1] or out[1] % groups or image[0] != out[0]:
        return None
    size, area = out[1] // groups, out[2] * out[3]
    places = {
        BATCH: (out[1] * area, out[0]),
        GROUP: (size * area, groups),
        CHANNEL: (area, size),
        ROW: (out[3], out[2]),
        COLUMN: (1, out[3]),
    }
    points = _Points(places, fused.axes)
    reduce = {a.var: a.extent for a in total.reduce}
    tap = _taps(weights.form, kernels, reduce) if points.complete else None
    if tap is None or not _reads_weights(weights.form, kernels, size, tap, reduce, points):
        return None
    moves = _moves(data.form, (kernels[1], *image), tap, reduce, points)
    if moves is None:
        return None
    source = program.buffer(padding.data if padding else data.buffer)
    stores = _stores(fused, points.name)
    found = Conv2d(
        data=source.name,
        weights=weights.buffer,
        stage=padding.target if padding else _spare(program),
        batch=out[0],
        groups=groups,
        channels=kernels[1],
        out_channels=size,
        height=source.shape[2],
        width=source.shape[3],
        out_height=out[2],
        out_width=out[3],
        kernel=(kernels[2], kernels[3]),
        stride=moves[0],
        dilation=moves[1],
        pad=(padding.top, padding.left) if padding else (0, 0),
        stores=stores,
        labels=epilogue_labels(stores[0].value, program, ROW, CHANNEL if size > 1 else GROUP),
    )
    fits = all(r <= i for r, i in zip(found.reach, image[2:], strict=True))
    return found if fits and _readable(program, found, padding) else None


def _reads_weights(
    form: LinearForm,
    kernels: Sequence[int],
    size: int,
    tap: Sequence[str],
    reduce: Mapping[str, int],
    points: _Points,
) -> bool:
    """Whether weights are read densely, by group, channel and tap."""
    taps = kernels[1] * kernels[2] * kernels[3]
    steps = dict(zip(tap, strides_of(kernels)[1:], strict=True))
    wanted = _used({GROUP: size * taps, CHANNEL: taps, **steps}, {**points.extents, **reduce})
    return _renamed(form, {**points.name, **{v: v for v in reduce}}) == (0, wanted)


def _moves(
    form: LinearForm,
    sizes: Sequence[int],
    tap: Sequence[str],
    reduce: Mapping[str, int],
    points: _Points,
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Stride and dilation, as the image is read; ``sizes``: channels of a group, its shape."""
    channels, *image = sizes
    form = _renamed(form, {**points.name, **{v: v for v in reduce}})
    plane = strides_of(image)
    row, down = form[1].get(ROW, plane[2]), form[1].get(tap[1], plane[2])
    column, right = form[1].get(COLUMN, 1), form[1].get(tap[2], 1)
    if row % plane[2] or down % plane[2]:
        return None
    wanted = {
        BATCH: plane[0],
        GROUP: channels * plane[1],
        ROW: row,
        COLUMN: column,
        tap[0]: plane[1],
        tap[1]: down,
        tap[2]: right,
    }
    if form != (0, _used(wanted, {**points.extents, **reduce})):
        return None
    if min(row, down, column, right) < 1:
        return None
    return (row // plane[2], column), (down // plane[2], right)


def _spare(program: Program) -> str:
    """A workspace that no stage touches, or nothing."""
    stores = [t for s in program.stages for t in (*s.init, *s.body)]
    used = {load.buffer for t in stores for load in loads(t.value)} | {
        t.buffer for s in program.stages for t in s.body
    }
    free = (b.name for b in program.buffers if b.role == "workspace" and b.name not in used)
    return next(free, "")


def _readable(program: Program, found: Conv2d, padding: Padding | None) -> bool:
    """Whether epilogue and input are f32 and apart from the padded copy."""
    read = {load.buffer for s in found.stores for load in loads(s.value)}
    return (
        program.buffer(found.data).dtype == "f32"
        and program.buffer(found.data).role == "input"
        and not (padding and padding.target in read)
    )


def _taps(
    form: LinearForm, kernels: Sequence[int], reduce: Mapping[str, int]
) -> tuple[str, str, str] | None:
    """Variables of channel, ky and kx; a name that is not used where the extent is 1."""
    found = []
    for extent, step, spare in zip(
        kernels[1:], strides_of(kernels)[1:], ("$c", "$ky", "$kx"), strict=True
    ):
        var = next((v for v, e in reduce.items() if form[1].get(v) == step and e == extent), "")
        if extent > 1 and not var:
            return None
        found.append(var if extent > 1 else spare)
    return (found[0], found[1], found[2]) if len(set(found)) == 3 else None


def _renamed(form: LinearForm, name: Mapping[str, str]) -> LinearForm:
    return form[0], {name[v]: c for v, c in form[1].items()}


def _used(steps: Mapping[str, int], extents: Mapping[str, int]) -> dict[str, int]:
    return {v: c for v, c in steps.items() if extents.get(v, 1) > 1}


def _stores(fused: Fused, name: Mapping[str, str]) -> tuple[Store, ...]:
    def index(expr: Expr) -> Expr:
        form = linear_form(expr, fused.axes)
        return rewrite(expr, change) if form is None else linear_expr(_renamed(form, name))

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Load):
            return Load(expr.buffer, index(expr.index))
        if isinstance(expr, Var) and expr.name != ACCUMULATOR:
            return Var(name[expr.name])
        return None

    return tuple(Store(s.buffer, index(s.index), rewrite(s.value, change)) for s in fused.stores)
