"""Seeded inputs of a workload, its float64 reference, and how far a kernel may be off."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator

import numpy as np

from nnjit_studio.compiler.ir.affine import children, walk
from nnjit_studio.compiler.ir.tensor_ir import (
    VIRTUAL,
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    stage_expressions,
)
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.oracle.rounding import UNIT, Array
from nnjit_studio.compiler.recognize.quantised import Quantised, in_words
from nnjit_studio.compiler.recognize.subject import packed_weight
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.model import DTYPE_BYTES
from nnjit_studio.records import Fixture, FixtureArg

SEED = 20_261_120
STORAGE = {
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "u8": np.uint8,
    "bool": np.uint8,
}
EXPONENTIALS = ("exp", "sinh", "cosh")
SPREAD = 500.0
"""Of the peaks among the inputs of a guarded exponential. They are at least 125: where
one is not taken off, its exponential is infinite as f32."""
SMALLEST = 2.0**-120
"""Floor of a float's bound: results this small may be flushed to zero."""


def make_fixture(
    workload_key: str,
    program: Program,
    seed: int = SEED,
    got_on: Callable[[], None] = lambda: None,
) -> Fixture:
    """Inputs, expected outputs and bounds; equal arguments give equal bytes.

    Floats have magnitudes in [0.25, 1] and random signs, so that each missing
    or misplaced term shows in every output that it belongs to. Where such
    inputs give results that are not finite (a logarithm, a root), positive
    values in [0.25, 1] are drawn instead. Integers that serve as indices are
    valid ones, flags are 0 or 1, other integers 1 to 8. Where every exponential
    is guarded by the largest value (a softmax), every other row has one element
    :data:`SPREAD` times as large, each row another one: equal numbers never
    need that guard, and it must not miss an element. Where there is one such
    input, every fourth row lies far below zero as a whole: there a sum of
    largest values guards nothing. (Of two, the products would be too large.)
    Operands of a product of bytes are any bytes.

    The bound is the running error bound of an f32 kernel
    (:mod:`nnjit_studio.compiler.oracle.rounding`) and one rounding of the result;
    0.5 for integers, which have to be exact. ``got_on`` is called again and again meanwhile.

    Raises
    ------
    BugError
        When the program cannot be evaluated.
    """
    for positive in (False, True):
        inputs = _inputs(workload_key, program, seed, positive)
        results = evaluate_with_bound(program, inputs, got_on)
        finite = all(np.isfinite(v).all() and np.isfinite(e).all() for v, e in results.values())
        if finite:
            break
    weight = packed_weight(subject_of(program))
    packed = weight.buffer if weight else ""
    pack = (weight.k, weight.n) if weight else None
    args = tuple(
        FixtureArg(
            "workspace" if b.role == VIRTUAL else b.role,
            b.dtype,
            (1 if b.role == VIRTUAL else math.prod(b.shape)) * DTYPE_BYTES[b.dtype],
            inputs[b.name].tobytes() if b.role == "input" else None,
            pack if b.name == packed else None,
        )
        for b in program.buffers
    )
    expected, bounds = [], []
    for buffer in program.buffers:
        if buffer.role == "output":
            value, error = results[buffer.name]
            with np.errstate(over="ignore"):
                expected.append(value.astype(STORAGE[buffer.dtype]).reshape(-1))
            bounds.append(_bound(value, error, buffer.dtype).reshape(-1))
    return Fixture(workload_key, args, tuple(expected), tuple(bounds))


def _bound(value: Array, error: Array, dtype: str) -> Array:
    if dtype not in ("f32", "f16"):
        # What follows from a comparison of nearly equal floats may go either way.
        return np.where(error == 0, 0.5, np.finfo(np.float32).max).astype(np.float32)
    size = np.abs(np.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0))
    # Where the analysis overflows there is no bound to be had: 1e-3 of the value.
    known = np.where(np.isfinite(error), error, 1e-3 * size)
    total = known + UNIT * size + SMALLEST
    bound: Array = np.minimum(total, float(np.finfo(np.float32).max)).astype(np.float32)
    return bound


def _inputs(key: str, program: Program, seed: int, positive: bool) -> dict[str, Array]:
    rng = np.random.Generator(np.random.PCG64([seed, zlib.crc32(key.encode())]))
    guarded = _guards_exponentials(program)
    floats = [b for b in program.buffers if b.role == "input" and b.dtype in ("f32", "f16")]
    result: dict[str, Array] = {}
    for buffer in program.buffers:
        if buffer.role != "input":
            continue
        size = math.prod(buffer.shape)
        if buffer.dtype in ("f32", "f16"):
            drawn: Array = rng.uniform(0.25, 1.0, size)
            if not positive:
                drawn *= rng.choice((-1.0, 1.0), size)
            if guarded and buffer.shape:
                rows = drawn.reshape(-1, buffer.shape[-1])[1::2]
                peaks = np.arange(len(rows)), np.arange(len(rows)) % buffer.shape[-1]
                rows[peaks] = SPREAD * np.abs(rows[peaks])
                if len(floats) == 1:
                    drawn.reshape(-1, buffer.shape[-1])[2::4] -= SPREAD / 2
        else:
            low, high = _integer_range(program, buffer)
            drawn = rng.integers(low, high, size)
        result[buffer.name] = drawn.astype(STORAGE[buffer.dtype])
    found = subject_of(program)
    if isinstance(found, Quantised):
        result |= (_words if found.block else _bytes)(program, found, rng)
    return result


def _words(program: Program, found: Quantised, rng: np.random.Generator) -> dict[str, Array]:
    """Weights in blocks with all of their bits, and zero points alike."""
    weight = program.buffer(found.contraction.b.buffer)
    drawn = rng.integers(-(1 << 31), 1 << 31, math.prod(weight.shape))
    result: dict[str, Array] = {weight.name: drawn.astype(STORAGE[weight.dtype])}
    if isinstance(found.zero, str):
        zero = program.buffer(found.zero)
        drawn = rng.integers(0, 1 << found.bits, math.prod(zero.shape))
        result[zero.name] = drawn.astype(STORAGE[zero.dtype])
    return result


def _bytes(program: Program, found: Quantised, rng: np.random.Generator) -> dict[str, Array]:
    """Both operands of a product; what stands below the weight's words follows from them."""
    c = found.contraction
    weight = rng.integers(-128, 128, (c.k, c.n)).astype(np.int8)
    operands: dict[str, Array] = {c.b.buffer: in_words(weight).reshape(-1)}
    a = program.buffer(c.a.buffer)
    if a.role == "input":
        low = 0 if a.dtype == "u8" else -128
        drawn = rng.integers(low, low + 256, math.prod(a.shape))
        operands[a.name] = drawn.astype(STORAGE[a.dtype])
    return operands


def _guards_exponentials(program: Program) -> bool:
    """Whether there are exponentials, all of a difference to some largest value."""
    largest = {
        store.buffer
        for stage in program.stages
        for store in stage.body
        if isinstance(store.value, Binary)
        and store.value.op == "max"
        and any(axis.kind == "reduce" for axis in stage.axes)
    }

    def guarded(argument: Expr) -> bool:
        return (
            isinstance(argument, Binary)
            and argument.op == "sub"
            and isinstance(argument.b, Load)
            and argument.b.buffer in largest
        )

    powers = [e for e in _expressions(program) if isinstance(e, Binary) and e.op == "pow"]
    found = [e for e in _expressions(program) if isinstance(e, Call) and e.fn in EXPONENTIALS]
    return bool(found) and not powers and all(e.fn == "exp" and guarded(e.args[0]) for e in found)


def _expressions(program: Program) -> Iterator[Expr]:
    for stage in program.stages:
        for expr in stage_expressions(stage):
            yield from walk(expr)


def _integer_range(program: Program, buffer: Buffer) -> tuple[int, int]:
    """Half-open range of useful values for an integer input, from how it is used."""
    if buffer.dtype == "bool":
        return 0, 2
    flag = False
    highs = []
    for expr in _expressions(program):
        if isinstance(expr, Load) and _reads(expr.index, buffer):
            highs.append(_axis_extent(program.buffer(expr.buffer), _step(expr.index, buffer)))
        if isinstance(expr, Cast) and expr.dtype in ("f32", "f16", "bool"):
            flag = flag or _reads(expr.value, buffer)
    if highs:
        return 0, max(1, min(highs))
    return (0, 2) if flag else (1, 9)


def _reads(expr: Expr, buffer: Buffer) -> bool:
    return any(isinstance(e, Load) and e.buffer == buffer.name for e in walk(expr))


def _step(index: Expr, buffer: Buffer) -> int:
    """The change of the index when ``buffer``'s value grows by one."""
    if isinstance(index, Binary):
        if index.op == "mul":
            for factor, other in ((index.a, index.b), (index.b, index.a)):
                if isinstance(factor, Const) and _reads(other, buffer):
                    return int(factor.value) * _step(other, buffer)
        return max(_step(part, buffer) for part in (index.a, index.b))
    if isinstance(index, Load):
        return 1 if index.buffer == buffer.name else 0
    return max((_step(part, buffer) for part in children(index)), default=0)


def _axis_extent(buffer: Buffer, step: int) -> int:
    """Extent of the axis of ``buffer`` whose stride is ``step`` elements."""
    stride = 1
    found = []
    for extent in reversed(buffer.shape):
        if stride == step:
            found.append(extent)
        stride *= extent
    return max(found, default=math.prod(buffer.shape) // max(1, step))
