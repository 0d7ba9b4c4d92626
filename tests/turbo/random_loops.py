"""Random functions with one vector loop each, in one module."""

from __future__ import annotations

import random

from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.instructions import encode
from nnjit_studio.wasm_file.module import MAGIC
from nnjit_studio.wasm_file.opcodes import CODES
from nnjit_studio.wasm_file.sections import section, sized, vector

I32, V128 = 0x7F, 0x7B
P, Q, N, SUM = 0, 1, 2, 3
FIRST_VECTOR = 4
RESULTS = 0x80000
VECTOR_OPS = [
    "f32x4.add",
    "f32x4.sub",
    "f32x4.mul",
    "f32x4.min",
    "f32x4.max",
    "i32x4.add",
    "i32x4.mul",
    "i16x8.sub",
    "v128.xor",
    "f64x2.add",
    "f64x2.mul",
    "i32x4.dot_i16x8_s",
    "i8x16.swizzle",
    "v128.andnot",
    "f32x4.gt",
]
UNARY_OPS = [
    "f32x4.neg",
    "f32x4.abs",
    "i32x4.abs",
    "v128.not",
    "f32x4.sqrt",
    "i32x4.trunc_sat_f32x4_s",
]


def code(name: str, *immediates: int) -> bytes:
    return encode(CODES[name], immediates)


def get(local: int) -> bytes:
    return code("local.get", local)


def put(local: int) -> bytes:
    return code("local.set", local)


class LoopWriter:
    """One function ``(p, q, n) -> i32``: pointers, and a number of iterations."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.carried = rng.randint(2, 12)
        self.temporaries = rng.randint(2, 10)
        self.vectors = range(FIRST_VECTOR, FIRST_VECTOR + self.carried + self.temporaries)
        self.written: set[int] = set(self.vectors[: self.carried])

    def any_vector(self) -> bytes:
        return get(self.rng.choice(sorted(self.written)))

    def address(self) -> tuple[bytes, int]:
        return get(self.rng.choice((P, Q))), 4 * self.rng.randint(0, 40)

    def value(self, depth: int = 0) -> bytes:
        """Code that leaves one vector."""
        kind = self.rng.random()
        pointer, offset = self.address()
        if kind < 0.2:
            return pointer + code("v128.load", self.rng.randint(0, 4), offset, 0)
        if kind < 0.35:
            return pointer + code("v128.load32_splat", 2, offset, 0)
        if kind < 0.45:
            whole = self.any_vector()
            lane = 4 * self.rng.randint(0, 3)
            lanes = [lane + k % 4 + 16 * self.rng.randint(0, 1) for k in range(16)]
            return whole + whole + code("i8x16.shuffle", *lanes)
        if kind < 0.55 or depth > 2:
            return self.any_vector()
        if kind < 0.62:
            return self.value(depth + 1) + code(self.rng.choice(UNARY_OPS))
        operands = self.value(depth + 1) + self.value(depth + 1)
        return operands + code(self.rng.choice(VECTOR_OPS))

    def accumulate(self) -> bytes:
        """A carried vector plus or minus a product, in both orders."""
        into = self.rng.choice(self.vectors[: self.carried])
        product = self.any_vector() + self.value() + code("f32x4.mul")
        plus = code(self.rng.choice(("f32x4.add", "f32x4.add", "f32x4.sub")))
        operands = (get(into), product) if self.rng.random() < 0.7 else (product, get(into))
        return b"".join(operands) + plus + put(into)

    def statement(self) -> bytes:
        kind = self.rng.random()
        if kind < 0.45:
            return self.accumulate()
        if kind < 0.5:
            lane = code("i32x4.extract_lane", self.rng.randint(0, 3))
            return get(SUM) + self.any_vector() + lane + code("i32.add") + put(SUM)
        if kind < 0.55:
            step = code("i32.const", 4 * self.rng.randint(0, 16)) + code("i32.add")
            pointer = self.rng.choice((P, Q))
            return get(pointer) + step + put(pointer)
        if kind < 0.58:
            return self.value() + code("drop")
        into = self.rng.choice(self.vectors)
        made = self.value()
        self.written.add(into)
        return made + (
            put(into) if self.rng.random() < 0.8 else code("local.tee", into) + put(into)
        )

    def body(self) -> bytes:
        """The whole function; pointers stay in memory and it ends after at most 16 iterations."""
        masked = (
            get(P) + code("i32.const", 0x3FFFF) + code("i32.and") + put(P),
            get(Q) + code("i32.const", 0x3FFFF) + code("i32.and") + put(Q),
            get(N) + code("i32.const", 15) + code("i32.and") + put(N),
        )
        started = b"".join(
            get(P) + code("v128.load", 0, 16 * n, 0) + put(v)
            for n, v in enumerate(self.vectors[: self.carried])
        )
        statements = b"".join(self.statement() for _ in range(self.rng.randint(3, 40)))
        count = get(N) + code("i32.const", 1) + code("i32.sub") + code("local.tee", N)
        loop = code("loop", -64) + statements + count + code("i32.const", 0)
        loop += code("i32.gt_s") + code("br_if", 0) + code("end")
        kept = [v for v in self.vectors if v in self.written and self.rng.random() < 0.7]
        stored = b"".join(
            code("i32.const", RESULTS + 16 * n) + get(v) + code("v128.store", 0, 0, 0)
            for n, v in enumerate(kept)
        )
        vectors = leb.unsigned(len(self.vectors)) + bytes((V128,))
        locals_ = vector([leb.unsigned(1) + bytes((I32,)), vectors])
        return locals_ + b"".join(masked) + started + loop + stored + get(SUM) + code("end")


def random_module(count: int, seed: int) -> bytes:
    """A module of so many random functions."""
    bodies = [LoopWriter(random.Random(f"{seed}/{n}")).body() for n in range(count)]
    sections = (
        (1, b"\x01\x60\x03\x7f\x7f\x7f\x01\x7f"),
        (3, vector([b"\0"] * count)),
        (5, b"\x01\x00\x10"),
        (10, vector([*map(sized, bodies)])),
    )
    return MAGIC + b"".join(section(number, data) for number, data in sections)
