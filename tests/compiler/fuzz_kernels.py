"""Random programs and contractions in wasmtime against the float64 reference, by the thousand.

``make fuzz N=10000 SEED=1``. Each case is a kernel (program, candidate, tier)
on inputs of one kind: plain numbers, or hostile ones (denormals, infinities,
NaN, huge and tiny values, extreme integers, indices far outside). The
reference says for each element how far a right f32 kernel may be off, or that
nothing is known (an overflow on the way, a comparison of equals); an element
outside is a wrong result, as is any byte outside the buffers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from block_products import block_product
from byte_products import byte_product
from kernel_harness import NUMPY, run_kernel
from matmul_programs import in_bytes, in_halves, with_rounded_weights

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
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
    Store,
    Var,
)
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.oracle.rounding import UNIT
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.quantised import Quantised, in_words
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import prepared, subject_of
from nnjit_studio.errors import CompileError
from nnjit_studio.records import TIERS, DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space import build_lite_space

EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 21, 33, 64)
DTYPES = ("f32", "f32", "f32", "f16", "i32", "i64", "u8", "i8", "bool")
FUNCTIONS = (
    "exp", "tanh", "erf", "sqrt", "rsqrt", "log", "sigmoid", "abs", "neg", "floor", "ceil",
    "round", "trunc", "sin", "cos", "atan", "sinh", "asinh",
)  # fmt: skip
KINDS = ("plain", "hostile", "huge", "tiny")
SPECIAL = np.array(
    [0, -0.0, 1, -1, 0.5, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 1.2e-38, 3.4e38, -3.4e38, 88.8,
     -104, 1e10, 16777217, 2.5, -2.5, 65504, 7e-8],
    np.float32,
)  # fmt: skip
SMALLEST = 2.0**-120


_ROOM = np.float32(1e33)
"""Of activations, so that sums of 128 of them times 255 are finite."""


@dataclass(frozen=True)
class Wrong:
    """A case whose result is off, with what is needed to see it again."""

    what: str
    program: Program
    candidate: Candidate | None
    tier: str
    kind: str
    detail: str


class Generator:
    """Random programs of every form that the tensor IR has."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.buffers: list[Buffer] = []
        self.shared: list[Expr] = []

    def pick(self, options: tuple[object, ...]) -> object:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def source(self, axes: list[Axis], dtype: str) -> Load:
        """A new input read at some index over the axes."""
        chosen = [a for a in axes if self.chance(0.75)]
        self.rng.shuffle(chosen)  # type: ignore[arg-type]
        index: Expr = Const(0, "i32")
        size = 1
        for axis in chosen:
            at: Expr = Var(axis.var)
            if self.chance(0.2):
                at = Const(axis.extent - 1, "i32") - at
            index = index + at * size
            size *= axis.extent
        if size > 1 and self.chance(0.2):
            inner = int(self.rng.integers(1, min(size, 17)))
            parts = [Binary(op, index, Const(inner, "i32")) for op in ("floormod", "floordiv")]
            outer = -(-size // inner)
            index = parts[0] * outer + parts[1]
            size = inner * outer
        if self.chance(0.15):
            index, size = self.gathered(index, size)
        name = f"x{len(self.buffers)}"
        self.buffers.append(Buffer(name, dtype, (max(size, 1),), "input"))
        return Load(name, index)

    def gathered(self, index: Expr, size: int) -> tuple[Expr, int]:
        """An index out of a buffer or out of floats, clamped as the importer clamps it."""
        if self.shared and self.chance(0.5):
            extent = int(self.rng.integers(1, 40))
            seen = self.shared[int(self.rng.integers(len(self.shared)))]
            low = Binary("max", Cast(Call("floor", (seen,)), "i32"), Const(0, "i32"))
            return Binary("min", low, Const(extent - 1, "i32")), extent
        name = f"x{len(self.buffers)}"
        dtype = str(self.pick(("i32", "i64")))
        self.buffers.append(Buffer(name, dtype, (size,), "input"))
        extent = int(self.rng.integers(1, 40))
        raw: Expr = Load(name, index)
        raw = raw if dtype == "i32" else Cast(raw, "i32")
        low = Binary("max", raw, Const(0, "i32"))
        return Binary("min", low, Const(extent - 1, "i32")), extent

    def value(self, axes: list[Axis], depth: int) -> Expr:
        """A f32 expression; parts of it come again, as they do in fused operators."""
        if self.shared and self.chance(0.1):
            return self.shared[int(self.rng.integers(len(self.shared)))]
        result = self.leaf(axes) if depth == 0 or self.chance(0.2) else self.grown(axes, depth)
        self.shared.append(result)
        return result

    def grown(self, axes: list[Axis], depth: int) -> Expr:
        form = self.pick(("binary", "binary", "call", "select", "integers", "half"))
        if form == "call":
            return Call(str(self.pick(FUNCTIONS)), (self.value(axes, depth - 1),))
        if form == "select":
            a, b = self.value(axes, depth - 1), self.value(axes, depth - 1)
            op = str(self.pick(("lt", "le", "gt", "ge", "eq", "ne")))
            condition: Expr = Binary(op, self.value(axes, depth - 1), Const(0.25, "f32"))
            if self.chance(0.3):
                limit = Binary("lt", Var(axes[0].var), Const(int(axes[0].extent) // 2, "i32"))
                condition = Binary(str(self.pick(("and", "or"))), limit, condition)
            return Select(condition, a, b)
        if form == "integers":
            dtype = str(self.pick(("i32", "i64", "u8", "i8")))
            return Cast(self.integer(axes, depth - 1, dtype), "f32")
        if form == "half":
            return Cast(Cast(self.value(axes, depth - 1), "f16"), "f32")
        op = str(self.pick(("add", "sub", "mul", "mul", "div", "min", "max")))
        return Binary(op, self.value(axes, depth - 1), self.value(axes, depth - 1))

    def leaf(self, axes: list[Axis]) -> Expr:
        if self.chance(0.1):
            return Const(float(self.rng.standard_normal()), "f32")
        if self.chance(0.1):
            return Cast(Var(axes[int(self.rng.integers(len(axes)))].var), "f32")
        dtype = str(self.pick(DTYPES))
        load = self.source(axes, dtype)
        return load if dtype in ("f32", "f16") else Cast(load, "f32")

    def integer(self, axes: list[Axis], depth: int, dtype: str) -> Expr:
        if depth == 0 or self.chance(0.3):
            if self.chance(0.2):
                return Cast(self.leaf(axes), dtype)
            return self.source(axes, dtype)
        ops = (
            "add", "sub", "mul", "min", "max", "floordiv", "floormod", "truncdiv", "truncmod",
            "bitand", "bitor", "bitxor", "shl", "shr",
        )  # fmt: skip
        op = str(self.pick(ops))
        b: Expr = self.integer(axes, depth - 1, dtype)
        if self.chance(0.3):
            b = Const(int(self.rng.integers(0, 9)), dtype)
        return Binary(op, self.integer(axes, depth - 1, dtype), b)

    def program(self) -> Program:
        self.buffers, self.shared = [], []
        while True:
            extents = [int(self.pick(EXTENTS)) for _ in range(int(self.rng.integers(1, 4)))]
            if np.prod(extents) <= 2500:
                break
        reduce = int(self.rng.integers(0, 2)) if len(extents) > 1 else 0
        kinds = ["spatial"] * (len(extents) - reduce) + ["reduce"] * reduce
        axes = [Axis(f"i{n}", e, k) for n, (e, k) in enumerate(zip(extents, kinds, strict=True))]
        spatial = [a for a in axes if a.kind == "spatial"]
        out: Expr = Const(0, "i32")
        for axis in spatial:
            out = out * axis.extent + Var(axis.var)
        size = int(np.prod([a.extent for a in spatial]))
        value = self.value(axes, int(self.rng.integers(1, 4)))
        if reduce:
            op = str(self.pick(("add", "add", "max", "min", "mul")))
            start = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}[op]
            body = (Store("t", out, Binary(op, Load("t", out), value)),)
            stage = Stage("t", tuple(axes), body, (Store("t", out, Const(start, "f32")),))
        elif self.chance(0.15):
            stage = self.scan(spatial, out, value)
        else:
            stage = Stage("t", tuple(axes), (Store("t", out, value),))
        dtype = str(self.pick(("f32", "f32", "f16", "i32", "u8", "bool")))
        end: Expr = Load("t", out)
        self.shared = []
        if self.chance(0.5):
            end = end * self.leaf(spatial)
        end = end if dtype in ("f32", "f16") else Cast(end, dtype)
        last = Stage("y", tuple(spatial), (Store("y", out, end),))
        buffers = (
            *self.buffers, Buffer("y", dtype, (size,), "output"),
            Buffer("t", "f32", (size,), "workspace"),
        )  # fmt: skip
        return Program("fuzz", buffers, (stage, last))

    def scan(self, spatial: list[Axis], out: Expr, value: Expr) -> Stage:
        """The value written by serial loops, in places that data says, twice where it is hot."""
        name = f"x{len(self.buffers)}"
        size = int(np.prod([a.extent for a in spatial]))
        self.buffers.append(Buffer(name, "i64", (size,), "input"))
        place = Binary("max", Cast(Load(name, out), "i32"), Const(0, "i32"))
        place = Binary("min", place, Const(size - 1, "i32"))
        steps: tuple[Store | Loop | If, ...] = (
            Store("t", out, Const(0.5, "f32")),
            If(Binary("gt", value, Const(0.0, "f32")), (Store("t", place, value),)),
        )
        for axis in reversed(spatial):
            steps = (Loop(axis.var, axis.extent, steps),)
        clear = Loop("z", size, (Store("t", Var("z"), Const(0.0, "f32")),))
        return Stage("t", (), steps=(clear, *steps))


def inputs_of(program: Program, rng: np.random.Generator, kind: str) -> dict[str, np.ndarray]:
    """Values of a kind for every input."""
    result = {}
    for b in program.buffers:
        if b.role != "input":
            continue
        dtype, size = NUMPY[b.dtype], int(np.prod(b.shape))
        if b.dtype == "bool":
            drawn = rng.integers(0, 2, size)
        elif b.dtype in ("f32", "f16"):
            drawn = rng.standard_normal(size)
            if kind == "hostile":
                drawn = np.where(rng.random(size) < 0.2, rng.choice(SPECIAL, size), drawn)
            elif kind in ("huge", "tiny"):
                # Half of the huge buffers leave room for products.
                top = rng.choice([17, 38]) if kind == "huge" else -44
                powers = rng.uniform(0, 1, size) * top
                drawn = drawn * 10.0**powers
        elif kind == "plain":
            drawn = rng.integers(0 if b.dtype == "u8" else -9, 10, size)
        else:
            limits = np.iinfo(dtype)
            drawn = rng.integers(limits.min, limits.max, size, dtype=dtype, endpoint=True)
            edge = rng.choice(np.array([0, 1, limits.min, limits.max], dtype), size)
            minus = np.array(-1 if limits.min < 0 else 1).astype(dtype)
            drawn = np.where(rng.random(size) < 0.3, edge, drawn)
            drawn = np.where(rng.random(size) < 0.1, minus, drawn)
        with np.errstate(all="ignore"):
            result[b.name] = np.asarray(drawn).astype(dtype).reshape(b.shape)
        if b.constant and b.dtype == "f16":  # the importer stores finite weights alone
            result[b.name] = np.nan_to_num(result[b.name])
    found = subject_of(program)
    if isinstance(found, Quantised) and found.block and found.contraction.m == 1:
        # One row meets the scale behind the sum of a block, which has to be finite.
        row = result[found.contraction.a.buffer]
        result[found.contraction.a.buffer] = np.where(
            np.isfinite(row), row.clip(-_ROOM, _ROOM), row
        )
    if isinstance(found, Quantised) and not found.block:
        weight = result[found.contraction.b.buffer]
        *words, _ = weight.astype(np.int8)
        rows = np.stack(words).transpose(0, 2, 1).reshape(-1, weight.shape[1])
        result[found.contraction.b.buffer] = in_words(rows)
    return result


def compare(got: np.ndarray, expected: np.ndarray, error: np.ndarray) -> str:
    """What is wrong with a result, or nothing."""
    with np.errstate(all="ignore"):
        if expected.dtype.kind != "f":
            off = (got != expected) & (error == 0)
        else:
            wide = got.astype(np.float64)
            known = np.isfinite(error)
            size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
            near = np.abs(wide - expected) <= error + 2 * UNIT * size + SMALLEST
            same = (wide == expected) | (np.isnan(wide) & np.isnan(expected))
            # A bound that reaches the largest number allows infinity.
            over = ~np.isfinite(wide) & (size + np.where(known, error, 0) >= 3.402823e38)
            off = known & ~near & ~same & ~over
        if not off.any():
            return ""
        at = int(np.flatnonzero(off.reshape(-1))[0])
        parts = (np.ravel(a)[at] for a in (got, expected, error))
        return f"{int(off.sum())} of {off.size} off, first at {at}: " + " ".join(map(str, parts))


def contractions(rng: np.random.Generator) -> tuple[Program, list[Candidate | None]]:
    """A random product of any kind, attention or a convolution, with some of its candidates."""

    def dim(high: int) -> int:
        return int(rng.integers(1, high))

    tail = str(rng.choice(["", "+bias", "+bias+relu", "+bias+gelu"]))
    form = rng.random()
    if form < 0.4:
        spec = f"matmul:{dim(40)}x{dim(70)}x{dim(70)}:f32{tail}"
    elif form < 0.6:
        spec = f"batch_matmul:{dim(5)}x{dim(24)}x{dim(30)}x{dim(40)}:f32"
    elif form < 0.7:
        spec = f"batch_matmul_dot:{dim(5)}x{dim(24)}x{dim(70)}x{dim(40)}:f32{tail}"
    elif form < 0.8:
        spec = f"attention:{dim(5)}x{dim(30)}x{dim(40)}x{16 * dim(4)}:f32"
    else:
        spec = convolution(rng)
    program = program_for(spec)
    if spec.startswith("batch_matmul_dot") and rng.random() < 0.4:
        program = program_for(f"matmul_dot:{dim(40)}x{4 * dim(18)}x{1 + dim(70)}:f32{tail}")
        a, table, *rest = program.buffers
        program = replace(program, buffers=(a, replace(table, constant=True), *rest))
        program = in_bytes(program, str(rng.choice(["u8", "i8"])), float(rng.choice([0, 131])))
    if spec.startswith("attention") and rng.random() < 0.4:
        program = with_rounded_weights(program, float(rng.choice([254.0, 20.0])))
    if form < 0.6 and rng.random() < 0.4:
        program = in_halves(program)
        if rng.random() < 0.5:
            dtype = str(rng.choice(["u8", "i8"]))
            program = byte_product(dim(40), 4 * dim(18), dim(70), dtype, bool(rng.integers(2)))
        elif rng.random() < 0.6:
            heads, block = int(rng.choice([1, 1, 3])), int(rng.choice([16, 32]))
            n = 48 * dim(3) if heads > 1 else dim(70)
            zeros, half = (bool(rng.integers(2)) for _ in range(2))
            bits = int(rng.choice([4, 8]))
            program = block_product(dim(40), block * dim(5), n, block, bits, zeros, half, heads)
    program = prepared(program)
    subject = subject_of(program)
    device = DeviceProfile("fuzz", "fuzz", vector_registers=int(rng.choice([16, 32])))
    packable = isinstance(subject, Quantised) or (
        isinstance(subject, Contraction) and subject.packable
    )
    workload = workload_for(program, subject)
    found: list[Candidate | None] = []
    if workload.tunable:
        found = [e.candidate for e in build_lite_space(workload, device, packable).entries]
    count = min(len(found), 3)
    chosen = [found[i] for i in rng.choice(len(found), count, replace=False)] if count else []
    return program, [None, *chosen]


def convolution(rng: np.random.Generator) -> str:
    """A random 2D convolution whose window fits."""
    groups = int(rng.choice([1, 1, 1, 2, 4]))
    kernel, dilation = int(rng.choice([1, 1, 3, 3, 2, 5])), int(rng.choice([1, 1, 1, 2]))
    pad, stride = int(rng.integers(0, kernel)), int(rng.choice([1, 1, 2, 3]))
    reach = dilation * (kernel - 1) + 1
    high, wide = (int(rng.integers(max(1, reach - 2 * pad), reach + 13)) for _ in range(2))
    depthwise = rng.random() < 0.3
    inner = groups * int(rng.integers(1, 7))
    outer, groups = (inner, inner) if depthwise else (groups * int(rng.integers(1, 9)), groups)
    tail = str(rng.choice(["", "+bias", "+bias+relu"]))
    dims = (1, inner, high, wide, outer, kernel, kernel, stride, pad, dilation, groups)
    return f"conv2d:{'x'.join(map(str, dims))}:f32{tail}"


def fuzz(cases: int, seed: int) -> tuple[Counter[str], list[Wrong]]:
    """Run so many cases; equal arguments run equal cases."""
    rng = np.random.default_rng(seed)
    generator = Generator(rng)
    counts: Counter[str] = Counter()
    wrong: list[Wrong] = []
    while counts["cases"] < cases:
        if rng.random() < 0.7:
            program, candidates = generator.program(), [None]
        else:
            program, candidates = contractions(rng)
        kinds = [*KINDS]
        given = [inputs_of(program, rng, kind) for kind in kinds]
        with np.errstate(all="ignore"):
            expected = [evaluate_with_bound(program, inputs) for inputs in given]
        for candidate in candidates:
            for tier in TIERS:
                try:
                    kernel = compile_program(program, candidate, tier)
                except CompileError as e:
                    counts["refused"] += 1
                    if candidate is None:
                        wrong.append(Wrong("refused", program, None, tier, "", str(e)))
                    continue
                counts["kernels"] += 1
                for kind, inputs, wanted in zip(kinds, given, expected, strict=True):
                    counts["cases"] += 1
                    detail = check(program, kernel, inputs, wanted, counts)
                    if detail:
                        wrong.append(Wrong("wrong", program, candidate, tier, kind, detail))
    return counts, wrong


def check(
    program: Program,
    kernel: Artifact,
    inputs: dict[str, np.ndarray],
    wanted: dict[str, tuple[np.ndarray, np.ndarray]],
    counts: Counter[str],
) -> str:
    """One run between red zones, compared; of bytes in both engines, whose instructions differ."""
    bytes_ = isinstance(subject_of(program), Quantised)
    found = (_differs(program, kernel, inputs, wanted, e) for e in (False, True)[: 1 + bytes_])
    for value, error in wanted.values():
        counts["elements"] += value.size
        counts["unknown"] += int(np.count_nonzero(~np.isfinite(error)))
    return next(filter(None, found), "")


def _differs(
    program: Program,
    kernel: Artifact,
    inputs: dict[str, np.ndarray],
    wanted: dict[str, tuple[np.ndarray, np.ndarray]],
    deterministic: bool,
) -> str:
    call = (program, kernel.data, kernel.parallel_extent, inputs, kernel.panels)
    try:
        got = run_kernel(*call, parts=min(2, kernel.parallel_extent), deterministic=deterministic)
    except AssertionError as e:
        return str(e)
    except Exception as e:  # a trap, or a module that the engine refuses
        return f"{type(e).__name__}: {e}"
    for name, (value, error) in wanted.items():
        detail = compare(got[name], value, error)
        if detail:
            return detail
    return ""


def campaign(
    name: str, cases: int, fuzz: Callable[[int, int], tuple[Counter[str], list[Wrong]]], about: str
) -> int:
    """The command around a fuzzer: its options, the wrong cases, one line of figures."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3)
    options = parser.parse_args()
    start = time.perf_counter()
    counts, wrong = fuzz(options.cases, options.seed)
    for case in wrong[: options.show]:
        sys.stdout.write(f"{case}\n\n")
    seconds = time.perf_counter() - start
    known = 1 - counts["unknown"] / max(1, counts["elements"])
    sys.stdout.write(
        f"{name}: seed {options.seed}, {counts['cases']} cases of {counts['kernels']} kernels, "
        f"{counts['elements']} elements ({known:.1%} with a bound), {counts['refused']} refused, "
        f"{len(wrong)} wrong, {seconds:.0f} s\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(campaign("fuzz", 10_000, fuzz, __doc__ or ""))
