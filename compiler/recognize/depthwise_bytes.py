"""Recogniser of depthwise convolutions of bytes, channels last.

``i32(X[n, y S + ky D, x S + kx D, c]) * W[ky, kx, c]`` summed over both k, with int32 weights that
are constant; pointwise stages follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import LinearForm
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.lanes import Lanes
from nnjit_studio.compiler.ir.tensor_ir import Cast, Const, Load, Program, Store
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR
from nnjit_studio.compiler.recognize.labels import epilogue_labels
from nnjit_studio.compiler.recognize.quantised import sum_of_factors
from nnjit_studio.compiler.recognize.subject import PackedWeight
from nnjit_studio.compiler.recognize.sums import fuse, sum_of_products
from nnjit_studio.records.quantised import DEPTHWISE_INT8

CHANNELS_AT_ONCE = 8
"""Bytes of the image that are widened together."""
MOST_TAPS = 25
"""More would not stay in locals."""


@dataclass(frozen=True)
class DepthwiseBytes:
    """Its geometry; ``strides`` are those of the image's bytes."""

    data: str
    weights: str
    batch: int
    rows: int
    columns: int
    channels: int
    kernel: tuple[int, int]
    image: int
    """Bytes from one image to the next."""
    down: int
    """Bytes from the place of an output row to that of the next one."""
    right: int
    tap_down: int
    """Bytes from a tap to the one below."""
    tap_right: int
    stores: tuple[Store, ...]
    """Over ``names`` and ``Var(ACCUMULATOR)``."""
    names: tuple[str, str, str, str]
    """The epilogue's variables of image, row, column and channel."""
    labels: tuple[str, ...]

    @property
    def kind(self) -> str:
        return DEPTHWISE_INT8

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes of the result, the kernel's, and the stride and the dilation of columns."""
        sizes = (self.batch, self.rows, self.columns, self.channels, *self.kernel)
        return (*sizes, *(max(1, s // self.channels) for s in (self.right, self.tap_right)))

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.rows * self.columns * self.channels * self.taps

    @property
    def packed(self) -> PackedWeight | None:
        return None

    def tunable(self, dtype: str) -> bool:
        return True


def recognize_depthwise_bytes(program: Program) -> DepthwiseBytes | None:
    """Read a program as such a convolution whose results can be stored by lanes, if it is one."""
    found = sum_of_factors(program)
    if found is None or len(found[2]) != 2:
        return None
    program, target, factors = found
    wide = [f.value for f in factors if isinstance(f, Cast) and isinstance(f.value, Load)]
    held = [f for f in factors if isinstance(f, Load)]
    if len(wide) != 1 or len(held) != 1 or program.buffer(target.buffer).dtype != "i32":
        return None
    data, weights = program.buffer(wide[0].buffer), program.buffer(held[0].buffer)
    if data.dtype not in BYTES or (weights.dtype, weights.constant) != ("i32", True):
        return None
    if len(weights.shape) not in (2, 3) or len(data.shape) != len(weights.shape) + 1:
        return None
    return _geometry(program, target, wide[0], held[0])


def _geometry(program: Program, target: Load, image: Load, weights: Load) -> DepthwiseBytes | None:
    stage = program.stages[0]
    floats = {
        name: replace(program.buffer(name), dtype="f32")
        for name in (target.buffer, image.buffer, weights.buffer)
    }
    plain = replace(
        stage,
        body=(replace(stage.body[0], value=target + image * weights),),
        init=(replace(stage.init[0], value=Const(0.0, "f32")),),
    )
    buffers = tuple(floats.get(b.name, b) for b in program.buffers)
    virtual = replace(program, buffers=buffers, stages=(plain, *program.stages[1:]))
    total = sum_of_products(virtual, plain)
    fused = fuse(virtual, total) if total is not None else None
    if total is None or fused is None:
        return None
    down, across, channels = (1, *program.buffer(weights.buffer).shape)[-3:]
    out = program.buffer(target.buffer).shape
    batch, rows, columns = out[0], math.prod(out[1:-2]), out[-2]
    if out[-1] != channels or channels % CHANNELS_AT_ONCE or down * across > MOST_TAPS:
        return None
    steps = (rows * columns * channels, columns * channels, channels, 1)
    names = _names(steps, (batch, rows, columns, channels))
    extents = dict(zip(names, (batch, rows, columns, channels), strict=True))
    if {v: e for v, e in extents.items() if e > 1} != fused.axes:
        return None
    x, w = (fused.a, fused.b) if fused.a.buffer == image.buffer else (fused.b, fused.a)
    reduced = {a.var: a.extent for a in total.reduce}
    taps = _taps(w.form, reduced, (down, across, channels), names[3])
    form = x.form[1]
    known = {*names, *taps.values()} if taps is not None else set()
    if taps is None or x.form[0] or not form.keys() <= known or form.get(names[3]) != 1:
        return None
    steps_of = [form.get(v, 0) for v in (*names[:3], taps["down"], taps["across"])]
    lanes = _lanes(program, fused.stores, extents, names[3])
    if not lanes:
        return None
    labels = epilogue_labels(fused.stores[-1].value, program, names[2], names[3])
    return DepthwiseBytes(
        data=image.buffer,
        weights=weights.buffer,
        batch=batch,
        rows=rows,
        columns=columns,
        channels=channels,
        kernel=(down, across),
        image=steps_of[0],
        down=steps_of[1],
        right=steps_of[2],
        tap_down=steps_of[3],
        tap_right=steps_of[4],
        stores=fused.stores,
        names=names,
        labels=labels,
    )


def _names(steps: tuple[int, ...], extents: tuple[int, ...]) -> tuple[str, str, str, str]:
    """The variables of a flat position's digits; an axis of one place has none."""
    image, row, column, channel = (
        f"p{step}" if extent > 1 else f"axis {i}"
        for i, (step, extent) in enumerate(zip(steps, extents, strict=True))
    )
    return image, row, column, channel


def _taps(
    form: LinearForm, reduced: dict[str, int], shape: tuple[int, int, int], channel: str
) -> dict[str, str] | None:
    """The variables of the taps, by direction; one that has a single tap has no variable."""
    down, across, channels = shape
    found = {"down": "no row", "across": "no column"}
    rest = {v: c for v, c in form[1].items() if v != channel}
    if form[0] or form[1].get(channel) != 1 or rest.keys() != reduced.keys():
        return None
    for var, step in rest.items():
        if step == channels and reduced[var] == across:
            found["across"] = var
        elif step == channels * across and reduced[var] == down:
            found["down"] = var
        else:
            return None
    return found


def _lanes(
    program: Program, stores: tuple[Store, ...], extents: dict[str, int], channel: str
) -> bool:
    known = {var: (0, extent - 1) for var, extent in extents.items()}
    lanes = Lanes(program, known, {ACCUMULATOR: "i32"})
    return all(lanes.store(store, channel) for store in stores)
