"""Lifting, orders and rewrites of one loop."""

from __future__ import annotations

import pytest
from random_loops import I32, V128, N, P, Q, code, get, put

from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.turbo.candidates import find
from nnjit_studio.foreign_wasm.turbo.loops.find import Loop, decoded, vector_loops
from nnjit_studio.foreign_wasm.turbo.loops.operators import F32X4_MADD, I64, LOAD32_SPLAT, OPERATORS
from nnjit_studio.foreign_wasm.turbo.loops.prove import difference
from nnjit_studio.foreign_wasm.turbo.loops.rewrite import rebuilt
from nnjit_studio.foreign_wasm.turbo.loops.rules import broadcasts
from nnjit_studio.foreign_wasm.turbo.loops.schedule import peak_of, plans
from nnjit_studio.foreign_wasm.turbo.loops.variants import FMA, SCHEDULE, variants
from nnjit_studio.foreign_wasm.turbo.targets import registers_of
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.module import MAGIC, Module, read
from nnjit_studio.wasm_file.opcodes import NAMES
from nnjit_studio.wasm_file.parts import WIDE_MEMORY
from nnjit_studio.wasm_file.sections import section, sized, vector

ROWS, COLUMNS = 4, 2
NAMES_OF = {I32: "i32", I64: "i64"}
A, B, ACC = 3, 3 + ROWS, 3 + ROWS + COLUMNS


def module_of(loop: bytes, vectors: int = 24, wide: bool = False, loops: int = 1) -> Module:
    """A function ``(p, q, n)`` with a loop, once or more, and stores of what the locals hold then.

    Pointers and memory have 64 bits if it is ``wide``.
    """
    pointer = I64 if wide else I32
    stores = b"".join(
        code(f"{NAMES_OF[pointer]}.const", 4096 + 16 * n) + get(3 + n) + code("v128.store", 0, 0, 0)
        for n in range(ACC - 3, vectors)
    )
    count = get(N) + code("i32.const", -1) + code("i32.add") + code("local.tee", N)
    body = leb.unsigned(1) + leb.unsigned(vectors) + bytes((V128,))
    body += (code("loop", -64) + loop + count + code("br_if", 0) + code("end")) * loops
    body += stores + code("end")
    sections = (
        (1, b"\x01\x60\x03" + bytes((pointer, pointer, I32)) + b"\x00"),
        (3, b"\x01\x00"),
        (5, bytes((1, WIDE_MEMORY if wide else 0, 16))),
        (10, vector([sized(body)])),
    )
    return read(MAGIC + b"".join(section(n, data) for n, data in sections))


def splat_kernel(rows: int = ROWS, columns: int = COLUMNS, wide: bool = False) -> bytes:
    """A tile as XNNPACK writes it: rows of A whole, lanes broadcast by shuffles."""
    integer = NAMES_OF[I64 if wide else I32]
    out = b"".join(get(P) + code("v128.load", 4, 64 * r, 0) + put(A + r) for r in range(rows))
    for k in range(4):
        for c in range(columns):
            out += get(Q) + code("v128.load", 4, 16 * (columns * k + c), 0) + put(A + rows + c)
        for r in range(rows):
            lanes = [4 * k + n % 4 for n in range(16)]
            splat = get(A + r) + get(A + r) + code("i8x16.shuffle", *lanes)
            for c in range(columns):
                acc = A + rows + columns + r * columns + c
                product = splat + get(A + rows + c) + code("f32x4.mul")
                out += product + get(acc) + code("f32x4.add") + put(acc)
    for pointer, step in ((P, 16), (Q, 64 * columns)):
        out += get(pointer) + code(f"{integer}.const", step) + code(f"{integer}.add") + put(pointer)
    return out


def only_loop(module: Module) -> Loop:
    (loop,) = vector_loops(decoded(module, 0))
    assert isinstance(loop, Loop), loop
    return loop


def test_a_splat_kernel_gets_an_order_that_fits() -> None:
    module = module_of(splat_kernel())
    function, loop = decoded(module, 0), only_loop(module)
    before = peak_of(loop.graph, loop.graph.order)
    (exact, *_), fused = (
        [v for v in variants(loop.graph, 13, True) if v.passed == p] for p in (SCHEDULE, FMA)
    )
    assert exact.plan.peak < before
    body = rebuilt(function, {loop.first: (loop, exact)})
    assert difference(function, body, False) == ""
    madd = rebuilt(function, {loop.first: (loop, fused[0])})
    assert difference(function, madd, True) == ""
    assert "another value" in difference(function, madd, False)
    codes = [fused[0].graph.nodes[n].code for n in fused[0].graph.order]
    assert codes.count(F32X4_MADD) == 4 * ROWS * COLUMNS


def test_broadcasts_come_from_memory_only_where_all_of_it_is_read_anyway() -> None:
    graph = only_loop(module_of(splat_kernel())).graph
    assert LOAD32_SPLAT in {graph.nodes[n].code for n in broadcasts(graph).order}
    first_lane = get(P) + code("v128.load", 4, 0, 0) + put(A)
    first_lane += get(A) + get(A) + code("i8x16.shuffle", *([0, 1, 2, 3] * 4))
    first_lane += get(ACC) + code("f32x4.add") + put(ACC)
    alone = only_loop(module_of(first_lane)).graph
    assert broadcasts(alone) is alone


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (get(P) + get(ACC) + code("v128.store", 0, 0, 0), "fd 0b"),
        (code("i32.const", 1) + get(N) + code("i32.div_s") + code("drop"), "6d"),
        (get(P) + code("memory.grow", 0) + code("drop"), "40"),
    ],
)
def test_loops_with_effects_or_traps_are_left_alone(extra: bytes, reason: str) -> None:
    module = module_of(splat_kernel() + extra)
    (told,) = vector_loops(decoded(module, 0))
    assert isinstance(told, str) and reason in told
    assert not find(module, 15, True).candidates


@pytest.mark.parametrize(
    ("step", "count", "reason"),
    [
        (code("f32x4.add"), 400, "operations deep"),
        (code("f32x4.add") + put(A) + get(A), 900, "instructions"),
    ],
)
def test_bodies_that_no_kernel_has_are_left_alone(step: bytes, count: int, reason: str) -> None:
    grown = get(ACC) + (get(ACC) + step) * count + put(ACC)
    (told,) = vector_loops(decoded(module_of(grown), 0))
    assert isinstance(told, str) and reason in told


def test_values_that_many_take_are_ordered_in_time() -> None:
    """Two values made of two, again and again: the ways through them double each time."""
    body = get(P) + code("v128.load", 4, 0, 0) + put(A) + get(P) + code("v128.load", 4, 16, 0)
    body += put(A + 1)
    for _ in range(60):
        both = get(A) + get(A + 1)
        body += both + code("f32x4.add") + put(A + 2) + both + code("f32x4.mul") + put(A + 1)
        body += get(A + 2) + put(A)
    body += get(ACC) + get(A) + code("f32x4.add") + put(ACC)
    loop = only_loop(module_of(body))
    assert all(plan.peak <= 6 for plan in plans(loop.graph))


def test_unused_loads_that_reach_further_keep_a_loop_as_it_is() -> None:
    far = get(P) + code("v128.load", 4, 4000, 0) + code("drop")
    (told,) = vector_loops(decoded(module_of(splat_kernel() + far), 0))
    assert isinstance(told, str) and "may trap" in told


def test_operators_have_the_arity_of_their_names() -> None:
    """By the decoder's table of names: nothing that stores, calls or branches."""
    assert len(OPERATORS) == 353, "a new instruction is to be looked at"
    for number in OPERATORS:
        name = NAMES[number]
        assert not name.startswith(("local", "global", "memory", "table", "br", "call", "ref"))
        assert "store" not in name and "atomic" not in name and "load" not in name
        assert "div" not in name or name.startswith("f"), name
        assert "rem" not in name, name
        assert "trunc_" not in name or "sat" in name or "relaxed" in name, name


def test_registers_are_those_of_engine_and_processor() -> None:
    assert registers_of("v8", "x86_64") == 15
    assert registers_of("v8", "aarch64") > 15
    with pytest.raises(UserError, match="not known"):
        registers_of("v8", "riscv64")
