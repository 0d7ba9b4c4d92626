"""The fuzzer's random programs as WGSL on wgpu-native: ``make fuzz-wgsl N=1000 SEED=1``.

Products, convolutions and products of bytes run with a random tile as well.

64-bit integers become 32-bit ones: in WGSL kernels only the low word counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

import numpy as np
from byte_products import byte_product
from fuzz_kernels import KINDS, Generator, Wrong, campaign, compare, contractions, inputs_of
from wgsl_harness import has_subgroups, run_program

from nnjit_studio.compiler.ir.affine import rewrite
from nnjit_studio.compiler.ir.rewrite import map_steps
from nnjit_studio.compiler.ir.tensor_ir import Cast, Const, Expr, Program, Store
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.errors import CompileError
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.gpu_candidate import GpuCandidate


def narrowed(program: Program) -> Program:
    """The program with i32 in place of i64."""

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Const) and expr.dtype == "i64":
            return Const(max(-(2**31), min(int(expr.value), 2**31 - 1)), "i32")
        if isinstance(expr, Cast) and expr.dtype == "i64":
            return Cast(rewrite(expr.value, visit), "i32")
        return None

    def store(s: Store) -> Store:
        return Store(s.buffer, rewrite(s.index, visit), rewrite(s.value, visit))

    buffers = (replace(b, dtype="i32") if b.dtype == "i64" else b for b in program.buffers)
    stages = (
        replace(
            stage,
            body=tuple(store(s) for s in stage.body),
            init=tuple(store(s) for s in stage.init),
            steps=map_steps(stage.steps, lambda s, _: store(s), lambda e, _: rewrite(e, visit), {}),
        )
        for stage in program.stages
    )
    return Program(program.name, tuple(buffers), tuple(stages))


def products(rng: np.random.Generator) -> Program:
    """A random product or convolution of floats, or one of bytes."""
    if rng.random() < 0.8:
        return contractions(rng)[0]
    m, words, n = (int(rng.integers(1, 40)) for _ in range(3))
    return byte_product(m, 4 * words, n, str(rng.choice(["u8", "i8"])), bool(rng.integers(2)))


def without_subnormals(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With zeros for subnormal f32 inputs: a GPU may read one as zero, and 3.4e38 times it is
    large enough to be seen."""
    tiny = np.finfo(np.float32).tiny
    return {
        name: np.where(abs(x) < tiny, np.float32(0), x) if x.dtype == np.float32 else x
        for name, x in inputs.items()
    }


def candidates(program: Program, rng: np.random.Generator) -> list[GpuCandidate | None]:
    """The first guess, and a small tile where there is a template."""
    if subject_of(program) is None:
        return [None]
    x0, y0, r0 = (int(rng.choice(sizes)) for sizes in ((1, 2, 4, 8), (1, 2, 4), (1, 2, 4)))
    across, down, depth = (int(rng.choice((1, 2, 4, 8))) for _ in range(3))
    split, vec = int(rng.choice((1, 1, 2, 3))), int(rng.choice((1, 2, 4)))
    return [None, GpuCandidate(x0, y0, r0, x0 * across, y0 * down, r0 * depth, split, vec)]


def fuzz(cases: int, seed: int, share: float = 0.7) -> tuple[Counter[str], list[Wrong]]:
    """Run so many cases; equal arguments run equal cases. ``share`` are not contractions."""
    rng = np.random.default_rng(seed)
    generator = Generator(rng)
    counts: Counter[str] = Counter()
    wrong: list[Wrong] = []
    while counts["cases"] < cases:
        whole = generator.program() if rng.random() < share else products(rng)
        program = narrowed(whole)
        given = [without_subnormals(inputs_of(program, rng, kind)) for kind in KINDS]
        with np.errstate(all="ignore"):
            expected = [evaluate_with_bound(program, inputs) for inputs in given]
        tried = [(c, t) for c in candidates(program, rng) for t in GPU_TIERS[: 1 + has_subgroups()]]
        for candidate, tier in tried:
            try:
                data = compile_wgsl(program, candidate, tier).data
            except CompileError as e:
                if candidate is not None or (
                    program.stages[0].steps and "buffers at once" in str(e)
                ):
                    counts["refused"] += 1  # serial loops are not taken apart
                    continue
                wrong.append(Wrong("refused", program, None, tier, "", str(e)))
                continue
            if tier != GPU_TIERS[0] and b"subgroup" not in data and b'requires":[]' in data:
                continue  # the same kernel again
            counts["kernels"] += 1
            for kind, inputs, wanted in zip(KINDS, given, expected, strict=True):
                counts["cases"] += 1
                detail = check(program, data, inputs, wanted, counts)
                if detail:
                    wrong.append(Wrong("wrong", program, candidate, tier, kind, detail))
    return counts, wrong


def check(
    program: Program,
    data: bytes,
    inputs: dict[str, np.ndarray],
    wanted: dict[str, tuple[np.ndarray, np.ndarray]],
    counts: Counter[str],
) -> str:
    """One run, compared."""
    try:
        got = run_program(program, data, inputs)
    except Exception as e:  # a validation error, or a write outside
        return f"{type(e).__name__}: {' '.join(str(e).split())[:400]}"
    for name, (value, error) in wanted.items():
        counts["elements"] += value.size
        counts["unknown"] += int(np.count_nonzero(~np.isfinite(error)))
        detail = compare(got[name], value, error)
        if detail:
            return f"{name}: {detail}"
    return ""


if __name__ == "__main__":
    sys.exit(campaign("fuzz-wgsl", 1000, fuzz, __doc__ or ""))
