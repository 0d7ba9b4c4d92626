"""Reference results of a program in float64, with a bound on the error of any f32 kernel.

Each stage runs over its whole iteration space with NumPy: a loop variable is an index grid along
its own dimension. With each float value goes, where asked for, a running error bound (Higham,
"Accuracy and Stability of Numerical Algorithms", 3.3), by the rules of :mod:`.rounding`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnjit_studio.compiler.ir.affine import linear_form, value_range, variables, walk
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Program,
    Select,
    Stage,
    Statement,
    Store,
    Var,
)
from nnjit_studio.compiler.oracle import rounding
from nnjit_studio.compiler.oracle.matrix_product import (
    Operand,
    Ranges,
    blocks,
    cuts,
    offsets,
    size_of,
    strided,
)
from nnjit_studio.compiler.oracle.points import BLOCK_POINTS, blocks_of, grids_of, repeats
from nnjit_studio.compiler.oracle.rounding import Array, Value
from nnjit_studio.errors import BugError

OPERAND_POINTS = 1 << 26
"""Largest operand of a product that goes through ``np.matmul`` at once, 512 MiB."""
COMPUTED_POINTS = 1 << 25
"""The same where it is more than elements of one buffer: that takes four times the memory."""
PART_POINTS = 1 << 18  # of a larger operand, and of a second one that is computed: a cache holds it

COMPUTED_AS = {
    "f32": np.float64,
    "f16": np.float64,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "u8": np.uint8,
    "bool": np.bool_,
}


def evaluate(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a program in float64; integers are exact and wrap as theirs do.

    Parameters
    ----------
    inputs
        An array for each input buffer, of its shape or flat.

    Returns
    -------
    dict
        Each output in its logical shape: float64 for floats, else its own dtype.

    Raises
    ------
    BugError
        When an input is missing or an index leaves its buffer.
    """
    return {name: value for name, (value, _) in _run(program, inputs, track=False).items()}


def evaluate_with_bound(
    program: Program, inputs: Mapping[str, Array], got_on: Callable[[], None] = lambda: None
) -> dict[str, tuple[Array, Array]]:
    """As :func:`evaluate`, each output with the absolute error that an f32 kernel may have.

    ``got_on`` is called behind each block of points.
    """
    return _run(program, inputs, True, got_on)


def _run(
    program: Program,
    inputs: Mapping[str, Array],
    track: bool,
    got_on: Callable[[], None] = lambda: None,
) -> dict[str, tuple[Array, Array]]:
    memory: dict[str, Value] = {}
    for buffer in program.buffers:
        size, dtype = math.prod(buffer.shape), COMPUTED_AS[buffer.dtype]
        if buffer.role == "input":
            given = inputs.get(buffer.name)
            if given is None or given.size != size:
                raise BugError(f"{program.name} needs {size} elements for {buffer.name}.")
            memory[buffer.name] = given.astype(dtype).reshape(-1), 0.0
        else:
            error = np.zeros(size) if track else 0.0
            memory[buffer.name] = np.zeros(size, dtype), error
    machine = _Machine(program, memory, track, got_on)
    with np.errstate(all="ignore"):
        for stage in program.stages:
            machine.stage(stage)
    return {
        b.name: (value.reshape(b.shape), np.broadcast_to(error, value.shape).reshape(b.shape))
        for b in program.buffers
        for value, error in [memory[b.name]]
        if b.role == "output"
    }


@dataclass(frozen=True)
class _Machine:
    program: Program
    memory: dict[str, Value]
    track: bool
    got_on: Callable[[], None]

    def stage(self, stage: Stage) -> None:
        spatial = tuple(a for a in stage.axes if a.kind != "reduce")
        reduce = tuple(a for a in stage.axes if a.kind == "reduce")
        if stage.steps:
            for block in blocks_of(spatial):
                grid, shape = grids_of(spatial, block)
                self._steps(stage.steps, grid, shape, None)
            return
        if not reduce:
            self._pointwise(stage.body, spatial)
            return
        self._pointwise(stage.init, spatial)
        term = _reduction(stage)
        if term is None:
            self._in_order(stage, spatial, reduce)
        elif not self._as_matmul(stage, term, spatial, reduce):
            self._pointwise(stage.init, spatial)  # some parts may be there
            self._reduce(stage.body[0], term, spatial, reduce)

    def _steps(
        self,
        steps: tuple[Statement, ...],
        grid: Mapping[str, Array],
        shape: tuple[int, ...],
        live: Array | None,
        unsure: bool = False,
    ) -> None:
        """Run statements where ``live``; ``unsure`` ones only leave their doubt behind."""
        for step in steps:
            if live is not None and not live.any():
                return
            if isinstance(step, Loop):
                for i in range(step.extent):
                    here = {**grid, step.var: np.array(i, np.int32)}
                    self._steps(step.body, here, shape, live, unsure)
            elif isinstance(step, If):
                found, doubt = self.eval(step.condition, grid, live)
                condition = np.broadcast_to(found.astype(np.bool_), shape)
                here_live = np.ones(shape, np.bool_) if live is None else live
                self._steps(step.then, grid, shape, condition & here_live, unsure)
                self._steps(step.otherwise, grid, shape, ~condition & here_live, unsure)
                either = np.broadcast_to(np.asarray(doubt) != 0, shape) & here_live
                self._steps((*step.then, *step.otherwise), grid, shape, either, True)
            else:
                self._step(step, grid, shape, live, unsure)

    def _step(
        self,
        store: Store,
        grid: Mapping[str, Array],
        shape: tuple[int, ...],
        live: Array | None,
        unsure: bool,
    ) -> None:
        index = np.broadcast_to(self.eval(store.index, grid, live)[0], shape)
        data, error = self.eval(store.value, grid, live)
        if live is not None:
            index = index[live]
            data, error = np.broadcast_to(data, shape)[live], np.broadcast_to(error, shape)[live]
        if unsure:
            data, error = self._read(store.buffer, index)[0], np.full(index.shape, np.inf)
        self._write(store.buffer, index, (data, error), index.shape)

    def _pointwise(self, stores: tuple[Store, ...], axes: tuple[Axis, ...]) -> None:
        for block in blocks_of(axes):
            grid, shape = grids_of(axes, block)
            self._assign(stores, grid, shape)

    def _assign(
        self, stores: tuple[Store, ...], grid: Mapping[str, Array], shape: tuple[int, ...]
    ) -> None:
        ready = [(s, self.eval(s.index, grid)[0], self.eval(s.value, grid)) for s in stores]
        for store, index, value in ready:
            self._write(store.buffer, np.broadcast_to(index, shape), value, shape)

    def _write(self, name: str, index: Array, value: Value, shape: tuple[int, ...]) -> None:
        target, errors = self.memory[name]
        if index.size and (index.min() < 0 or index.max() >= target.size):
            raise BugError(f"{self.program.name} writes outside {name}.")
        stored, error = rounding.stored(value, self.program.buffer(name).dtype)
        target[index] = np.broadcast_to(stored, shape)
        if isinstance(errors, np.ndarray):
            errors[index] = np.broadcast_to(error, shape)
        self.got_on()

    def _in_order(self, stage: Stage, spatial: tuple[Axis, ...], reduce: tuple[Axis, ...]) -> None:
        for block in blocks_of(spatial):
            grid, shape = grids_of(spatial, block)
            for point in np.ndindex(*(a.extent for a in reduce)):
                here = {a.var: np.array(v, np.int32) for a, v in zip(reduce, point, strict=True)}
                self._assign(stage.body, {**grid, **here}, shape)

    def _reduce(
        self, store: Store, term: Binary, spatial: tuple[Axis, ...], reduce: tuple[Axis, ...]
    ) -> None:
        axes = spatial + reduce
        dims = tuple(range(len(spatial), len(axes)))
        depth = math.prod(a.extent for a in reduce)
        alike = repeats((term.b,), reduce)
        for block in blocks_of(axes):
            grid, shape = grids_of(axes, block)
            value, error = self.eval(term.b, grid)
            full: Value = (
                np.broadcast_to(value, shape),
                np.broadcast_to(error, shape) if self.track else 0.0,
            )
            part = rounding.reduced(term.op, full, dims, depth, alike)
            index = self.eval(store.index, grid)[0]
            outer = shape[: len(spatial)]
            index = np.broadcast_to(index, outer + (1,) * len(reduce)).reshape(outer)
            old: Value = self._read(store.buffer, index)
            self._write(
                store.buffer, index, rounding.accumulated(term.op, old, part, depth, alike), outer
            )

    def _as_matmul(
        self, stage: Stage, term: Binary, spatial: tuple[Axis, ...], reduce: tuple[Axis, ...]
    ) -> bool:
        """Sum of products through ``np.matmul``; False where it is not one, or not finite.

        Integers go through float64 too, where that holds all of their sums. Every sum is made, of
        all its terms; of a large operand some rows or columns at a time.
        """
        product, store, extents = term.b, stage.body[0], stage.extents
        place = linear_form(store.index, extents)
        if term.op != "add" or not isinstance(product, Binary) or product.op != "mul" or not place:
            return False
        a, b = (variables(factor) for factor in (product.a, product.b))
        names = [x.var for x in spatial if x.extent > 1]
        batch = [v for v in names if (v in a) == (v in b)]
        m = [v for v in names if v in a and v not in b]
        n = [v for v in names if v in b and v not in a]
        k = [x.var for x in reduce]
        parts: list[list[Ranges]] = []
        for factor, group in ((product.a, m), (product.b, n)):
            whole = OPERAND_POINTS if isinstance(factor, Load) else COMPUTED_POINTS
            points = math.prod(extents[v] for v in (*batch, *group, *k))
            cut = bool(group and stage.init)
            if points > whole and not cut:
                return False
            once = points <= whole and (isinstance(factor, Load) or not parts or not cut)
            parts.append(cuts(group, extents, points, points if once else PART_POINTS))
        alike = repeats((product.a, product.b), reduce)
        ranges = {v: (0, extent) for v, extent in extents.items()}
        for rows in parts[0]:
            x = self._operand(product.a, [batch, m, k], extents, {**ranges, **rows})
            if x is None:
                return False
            for columns in parts[1]:
                here = {**ranges, **rows, **columns}
                y = self._operand(product.b, [batch, k, n], extents, here)
                places = place[0], *(offsets(place, group, here) for group in (batch, m, n))
                if y is None or not self._add_product(store.buffer, x, y, places, alike):
                    return False
        return True

    def _add_product(
        self, buffer: str, x: Operand, y: Operand, places: tuple[Any, ...], alike: bool
    ) -> bool:
        """Add a batch of products where it lies; False where integers are too large for that."""
        if x.value.dtype != y.value.dtype:
            return False
        depth = x.value.shape[2]
        integer = x.value.dtype != np.float64
        if integer:
            largest = [float(np.abs(o.value.astype(np.float64)).max()) for o in (x, y)]
            if x.error is not None or y.error is not None or math.prod(largest) * depth > 2**53:
                return False
            x, y = (Operand(o.value.astype(np.float64), None) for o in (x, y))
        inexact = self.track and not integer
        bound = rounding.UNIT + rounding.sum_factor(depth, alike) if inexact else None
        first, begin, rows, columns = places
        for at, part, found in blocks(x, y, bound, BLOCK_POINTS):
            index = first + begin[at] + rows[part, None] + columns
            old = self._read(buffer, index)
            sums = (found[0].astype(np.int64).astype(old[0].dtype), 0.0) if integer else found
            total = rounding.accumulated("add", old, sums, depth)
            self._write(buffer, index, total, index.shape)
        return True

    def _operand(
        self, factor: Expr, groups: list[list[str]], extents: Mapping[str, int], ranges: Ranges
    ) -> Operand | None:
        """A factor of a sum of products at points of its variables; None if not finite."""
        if isinstance(factor, Load):
            value, error = self.memory[factor.buffer]
            form = linear_form(factor.index, extents)
            reach = value_range(form, extents) if form is not None else None
            if form is None or reach is None or reach[0] < 0 or reach[1] >= value.size:
                return None
            if not np.isfinite(value).all():
                return None
            value = strided(value, form, groups, ranges)
            if isinstance(error, np.ndarray):
                error = strided(error, form, groups, ranges)
        else:
            axes = tuple(Axis(v, extents[v]) for group in groups for v in group)
            grid, shape = grids_of(axes, tuple(ranges[axis.var] for axis in axes))
            single = {v: np.array(0, np.int32) for v in variables(factor) if v not in grid}
            value, error = self.eval(factor, {**single, **grid})
            if not np.isfinite(value).all():
                return None
            sizes = [size_of(group, ranges) for group in groups]
            value = np.broadcast_to(value, shape).reshape(sizes)
            error = np.broadcast_to(error, shape).reshape(sizes)
        return Operand(value, error if isinstance(error, np.ndarray) and error.any() else None)

    def _read(self, name: str, index: Array) -> Value:
        data, errors = self.memory[name]
        return data[index], errors[index] if isinstance(errors, np.ndarray) else errors

    def eval(self, expr: Expr, grid: Mapping[str, Array], live: Array | None = None) -> Value:
        """Value and error of an expression; ``live`` marks the points whose value is used."""
        if isinstance(expr, Const):
            value: Array = np.array(expr.value, COMPUTED_AS[expr.dtype])
            # A kernel has the constant's f32, not its float64.
            narrow = expr.dtype in ("f32", "f16")
            return (value.astype(np.float32).astype(np.float64) if narrow else value), 0.0
        if isinstance(expr, Var):
            return grid[expr.name], 0.0
        if isinstance(expr, Load):
            index, doubt = self.eval(expr.index, grid, live)
            value, known = self._load(expr, index, live)
            return value, np.where(np.asarray(doubt) == 0, known, np.inf) if self.track else 0.0
        if isinstance(expr, Select):
            condition, doubt = self.eval(expr.condition, grid, live)
            condition = condition.astype(np.bool_)
            then_live = condition if live is None else condition & live
            else_live = ~condition if live is None else ~condition & live
            then = self.eval(expr.then, grid, then_live)
            otherwise = self.eval(expr.otherwise, grid, else_live)
            error: Array | float = 0.0
            if self.track:
                error = np.where(condition, then[1], otherwise[1])
                apart = np.abs(np.subtract(then[0], otherwise[0], dtype=np.float64))
                apart = np.where(np.isfinite(apart), apart, np.inf) + then[1] + otherwise[1]
                error = np.where(np.asarray(doubt) == 0, error, apart)
            return np.where(condition, then[0], otherwise[0]), error
        if isinstance(expr, Cast):
            return rounding.cast(self.eval(expr.value, grid, live), expr.dtype, self.track)
        if isinstance(expr, Call):
            return rounding.call(expr.fn, self.eval(expr.args[0], grid, live), self.track)
        a, b = self.eval(expr.a, grid, live), self.eval(expr.b, grid, live)
        return rounding.binary(expr.op, a, b, self.track)

    def _load(self, load: Load, index: Array, live: Array | None) -> Value:
        size = self.memory[load.buffer][0].size
        if index.size and (index.min() < 0 or index.max() >= size):
            outside = (index < 0) | (index >= size)
            if live is None or bool(np.any(outside & live)):
                raise BugError(f"{self.program.name} reads outside {load.buffer}.")
            index = np.clip(index, 0, size - 1)
        return self._read(load.buffer, index)


def _reduction(stage: Stage) -> Binary | None:
    """``op(buf[i], f)`` of a stage with one such store, with f as ``b``; else None."""
    store = stage.body[0]
    value = store.value
    if len(stage.body) != 1 or not isinstance(value, Binary):
        return None
    if value.op not in ("add", "mul", "min", "max"):
        return None
    for own, term in ((value.a, value.b), (value.b, value.a)):
        loads = [e for e in walk(term) if isinstance(e, Load) and e.buffer == store.buffer]
        if own == Load(store.buffer, store.index) and not loads:
            return Binary(value.op, own, term)
    return None
