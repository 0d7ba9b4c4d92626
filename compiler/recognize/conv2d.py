"""Finds the convolution in a program: padding, a sum over taps, and what follows it pointwise.

TVM makes of ONNX's Conv a stage that pads into a workspace (none without
padding), the sum over ``(channel, ky, kx)``, and pointwise stages. The sum is
read with the parts that recognise matmuls; a group is a digit of its own in
the output channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import LinearForm, linear_expr, linear_form, rewrite, walk
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Contraction, Operand
from nnjit_studio.compiler.recognize.labels import epilogue_labels
from nnjit_studio.compiler.recognize.matmul import Fused, SumOfProducts, fuse, sum_of_products
from nnjit_studio.space.wasm.conv2d import CONV2D

BATCH, GROUP, CHANNEL, ROW, COLUMN = "b", "g", "o", "y", "x"
"""Variables of the epilogue: image, group, output channel in its group, output row, column."""


@dataclass(frozen=True)
class Conv2d:
    """``out[b, g, o, y, x] = epilogue(sum W[g, o, c, ky, kx] * padded[b, g, c, ...])``.

    Pairs are (vertical, horizontal), in elements.

    Attributes
    ----------
    channels, out_channels
        Of one group.
    height, width
        Of the input without padding.
    stage
        A workspace with room for :attr:`staged_elements` float32; empty if
        the program has none (:func:`with_staging` adds it).
    stores
        One for each output, over the variables above and the accumulator.
    """

    data: str
    weights: str
    stage: str
    batch: int
    groups: int
    channels: int
    out_channels: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]
    stores: tuple[Store, ...]
    labels: tuple[str, ...]

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

    One over a sequence (NCW) counts as one over images of a single row.

    Returns
    -------
    Conv2d or None
        None when the sum, the padding or a later stage has another form.
    """
    program = _with_rows(program)
    padding = _padding(program) if len(program.stages) > 1 else None
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
    """Tensors of three dimensions as images of one row: the same elements in the same order."""
    return replace(
        program,
        buffers=tuple(
            replace(b, shape=(*b.shape[:2], 1, b.shape[2])) if len(b.shape) == 3 else b
            for b in program.buffers
        ),
    )


@dataclass(frozen=True)
class _Padding:
    target: str
    data: str
    top: int
    left: int


def _extents(stage: Stage) -> dict[str, int]:
    return {a.var: a.extent for a in stage.axes}


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _padding(program: Program) -> _Padding | None:
    """The first stage as a copy with zeros around it."""
    stage = program.stages[0]
    if stage.init or len(stage.body) != 1 or not isinstance(stage.body[0].value, Select):
        return None
    store, extents = stage.body[0], _extents(stage)
    value = store.value
    assert isinstance(value, Select)
    load, zero = value.then, value.otherwise
    if not isinstance(load, Load) or not isinstance(zero, Const) or zero.value != 0:
        return None
    target, data = program.buffer(store.buffer), program.buffer(load.buffer)
    shapes = (target.shape, data.shape)
    if target.role != "workspace" or data.role != "input" or {len(s) for s in shapes} != {4}:
        return None
    place, source = linear_form(store.index, extents), linear_form(load.index, extents)
    if place is None or source is None:
        return None
    variables = _variables(place, target.shape, extents)
    limits = limits_of(value.condition, extents)
    if variables is None or limits is None:
        return None
    before = []
    for var, whole, inner in zip(variables, target.shape, data.shape, strict=True):
        low, high = limits.pop(var, (0, whole)) if var else (0, whole)
        if high - low != inner:
            return None
        before.append(low)
    steps = _strides(data.shape)
    wanted = {v: step for v, step in zip(variables, steps, strict=True) if v}
    offset = -sum(low * step for low, step in zip(before, steps, strict=True))
    if limits or any(before[:2]) or source != (offset, wanted):
        return None
    return _Padding(store.buffer, load.buffer, before[2], before[3])


def _variables(
    form: LinearForm, shape: Sequence[int], extents: Mapping[str, int]
) -> list[str] | None:
    """The variable of each dimension, "" where the extent is 1, if the form is row-major."""
    left = dict(form[1])
    found = []
    for extent, step in zip(shape, _strides(shape), strict=True):
        var = next((v for v, c in left.items() if c == step and extents[v] == extent), "")
        if extent > 1 and not var:
            return None
        found.append(var if extent > 1 else "")
        left.pop(found[-1], None)
    return found if not left and form[0] == 0 else None


def limits_of(condition: Expr, extents: Mapping[str, int]) -> dict[str, tuple[int, int]] | None:
    """Half-open range by variable of a conjunction of comparisons with constants."""
    limits: dict[str, tuple[int, int]] = {}

    def take(expr: Expr) -> bool:
        if not isinstance(expr, Binary):
            return False
        if expr.op == "and":
            return take(expr.a) and take(expr.b)
        a, b = (linear_form(e, extents) for e in (expr.a, expr.b))
        if a is None or b is None or expr.op not in ("lt", "le", "gt", "ge"):
            return False
        if expr.op in ("gt", "ge"):
            a, b = b, a
        # a < b or a <= b, one side a variable with factor 1, the other a constant.
        closed = int(expr.op in ("le", "ge"))
        if not a[1] and list(b[1].values()) == [1]:
            (var,) = b[1]
            low, high = limits.get(var, (0, extents[var]))
            limits[var] = max(low, a[0] - b[0] + 1 - closed), high
        elif not b[1] and list(a[1].values()) == [1]:
            (var,) = a[1]
            low, high = limits.get(var, (0, extents[var]))
            limits[var] = low, min(high, b[0] - a[0] + closed)
        else:
            return False
        return True

    return limits if take(condition) else None


def _with_groups(program: Program) -> Program | None:
    """The sum's output channel as two variables, group and channel in the group."""
    stage = program.stages[0]
    extents = _extents(stage)
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
        position = Binary("mul", position, Const(size, "i32"))
        position = Binary("add", position, Var(f"{var}o"))

    def change(expr: Expr) -> Expr | None:
        return position if expr == Var(var) else None

    parts = (Axis(f"{var}g", groups), *((Axis(f"{var}o", size),) if size > 1 else ()))
    axes = tuple(p for a in stage.axes for p in (parts if a.var == var else (a,)))
    body, init = (
        tuple(Store(s.buffer, rewrite(s.index, change), rewrite(s.value, change)) for s in stores)
        for stores in (stage.body, stage.init)
    )
    first = replace(stage, axes=axes, body=body, init=init)
    return replace(program, stages=(first, *program.stages[1:]))


def _geometry(
    program: Program,
    split: Program,
    total: SumOfProducts,
    fused: Fused,
    padding: _Padding | None,
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
    size = out[1] // groups
    area = out[2] * out[3]
    places = {
        BATCH: (out[1] * area, out[0]),
        GROUP: (size * area, groups),
        CHANNEL: (area, size),
        ROW: (out[3], out[2]),
        COLUMN: (1, out[3]),
    }
    name = {f"p{step}": v for v, (step, extent) in places.items() if extent > 1}
    extents = {v: extent for v, (_, extent) in places.items() if extent > 1}
    if {name.get(p): e for p, e in fused.axes.items()} != extents:
        return None
    taps = kernels[1] * kernels[2] * kernels[3]
    reduce = {a.var: a.extent for a in total.reduce}
    tap = _taps(weights.form, kernels, reduce)
    if tap is None:
        return None
    wanted = {GROUP: size * taps, CHANNEL: taps}
    named = _renamed(weights.form, {**name, **{v: v for v in reduce}})
    steps = dict(zip(tap, _strides(kernels)[1:], strict=True))
    if named != (0, _used({**wanted, **steps}, {**extents, **reduce})):
        return None

    form = _renamed(data.form, {**name, **{v: v for v in reduce}})
    plane = _strides(image)
    row, down = form[1].get(ROW, plane[2]), form[1].get(tap[1], plane[2])
    column, right = form[1].get(COLUMN, 1), form[1].get(tap[2], 1)
    if row % plane[2] or down % plane[2]:
        return None
    wanted = {
        BATCH: plane[0],
        GROUP: kernels[1] * plane[1],
        ROW: row,
        COLUMN: column,
        tap[0]: plane[1],
        tap[1]: down,
        tap[2]: right,
    }
    if form != (0, _used(wanted, {**extents, **reduce})) or min(row, down, column, right) < 1:
        return None
    used = {
        e.buffer
        for s in program.stages
        for t in (*s.init, *s.body)
        for e in walk(t.value)
        if isinstance(e, Load)
    } | {t.buffer for s in program.stages for t in s.body}
    spare = next((b for b in program.buffers if b.role == "workspace" and b.name not in used), None)
    source = program.buffer(padding.data if padding else data.buffer)
    stores = _stores(fused, name)
    found = Conv2d(
        data=source.name,
        weights=weights.buffer,
        stage=padding.target if padding else spare.name if spare else "",
        batch=out[0],
        groups=groups,
        channels=kernels[1],
        out_channels=size,
        height=source.shape[2],
        width=source.shape[3],
        out_height=out[2],
        out_width=out[3],
        kernel=(kernels[2], kernels[3]),
        stride=(row // plane[2], column),
        dilation=(down // plane[2], right),
        pad=(padding.top, padding.left) if padding else (0, 0),
        stores=stores,
        labels=epilogue_labels(stores[0].value, program, ROW, CHANNEL if size > 1 else GROUP),
    )
    fits = all(r <= i for r, i in zip(found.reach, image[2:], strict=True))
    return found if fits and _readable(program, found, padding) else None


def _readable(program: Program, found: Conv2d, padding: _Padding | None) -> bool:
    """Whether epilogue and input are f32 and apart from the padded copy."""
    loads = {e.buffer for s in found.stores for e in walk(s.value) if isinstance(e, Load)}
    return (
        program.buffer(found.data).dtype == "f32"
        and program.buffer(found.data).role == "input"
        and not (padding and padding.target in loads)
    )


def _taps(
    form: LinearForm, kernels: Sequence[int], reduce: Mapping[str, int]
) -> tuple[str, str, str] | None:
    """Variables of channel, ky and kx; a name that is not used where the extent is 1."""
    found = []
    for extent, step, spare in zip(
        kernels[1:], _strides(kernels)[1:], ("$c", "$ky", "$kx"), strict=True
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
