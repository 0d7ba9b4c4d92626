"""LEB128 and the three passes on trees small enough to check by eye."""

from __future__ import annotations

import pytest

from nnjit_studio.compiler.wasm.combined_instruction import combined_instruction
from nnjit_studio.compiler.wasm.fuse_multiply_add import fuse_multiply_add
from nnjit_studio.compiler.wasm.hoist_constants import hoist_constants
from nnjit_studio.compiler.wasm.ir import (
    Const,
    Function,
    IfElse,
    Load,
    LocalGet,
    LocalSet,
    LocalTee,
    Loop,
    Node,
    Op,
    Store,
    i32,
)
from nnjit_studio.compiler.wasm.load_store_to_variable import load_store_to_variable
from nnjit_studio.compiler.wasm.offset_load_store import offset_load_store
from nnjit_studio.compiler.wasm.text import function_text
from nnjit_studio.wasm_file.leb import signed, unsigned


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (624485, "e58e26")]
)
def test_unsigned_leb128(value: int, data: str) -> None:
    assert unsigned(value).hex() == data


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (63, "3f"), (64, "c000"), (-1, "7f"), (-64, "40"), (-65, "bf7f")],
)
def test_signed_leb128(value: int, data: str) -> None:
    assert signed(value).hex() == data


def plus(a: Node, b: int) -> Node:
    return Op("i32.add", (a, i32(b)))


def load(address: Node, buffer: str = "x") -> Load:
    return Load("f32.load", address, 0, buffer)


def body(*nodes: Node) -> Function:
    return Function(["x", "y"], ["f32", "f32", "v128"], {}, list(nodes))


def lines(function: Function) -> list[str]:
    return [line.strip() for line in function_text(function).splitlines() if "local $" not in line]


def test_offsets_are_summed_and_negative_ones_stay() -> None:
    nested = LocalSet(2, load(plus(plus(LocalGet(0), 8), 16)))
    negative = LocalSet(3, load(plus(LocalGet(0), -8)))
    function = body(nested, negative)
    offset_load_store(function)
    first, second = (node.value for node in function.body)  # type: ignore[union-attr]
    assert (type(first.address), first.offset) == (LocalGet, 24)
    assert (type(second.address), second.offset) == (Op, 0)


def test_splats_of_loads_combine_and_splats_of_others_do_not() -> None:
    function = body(
        LocalSet(4, Op("f32x4.splat", (load(LocalGet(0)),))),
        LocalSet(4, Op("f32x4.splat", (LocalGet(2),))),
        LocalSet(4, Op("i64x2.splat", (Load("i64.load", LocalGet(0), 0, "x"),))),
    )
    combined_instruction(function)
    text = function_text(function)
    assert "v128.load32_splat (local.get $x)" in text
    assert "v128.load64_splat (local.get $x)" in text
    assert "(f32x4.splat (local.get $2))" in text


def test_a_set_that_is_read_next_becomes_a_tee_or_vanishes() -> None:
    twice = body(
        LocalSet(2, load(LocalGet(0))),
        LocalSet(3, Op("f32.mul", (LocalGet(2), LocalGet(2)))),
    )
    load_store_to_variable(twice)
    (only,) = twice.body
    assert isinstance(only, LocalSet) and isinstance(only.value, Op)
    assert isinstance(only.value.args[0], LocalTee)
    once = body(LocalSet(2, load(LocalGet(0))), LocalSet(3, Op("f32.neg", (LocalGet(2),))))
    load_store_to_variable(once)
    (single,) = once.body
    assert isinstance(single, LocalSet) and isinstance(single.value, Op)
    assert isinstance(single.value.args[0], Load)


def test_repeated_loads_share_a_local_until_their_buffer_is_written() -> None:
    again = lambda: Store("f32.store", LocalGet(1), load(LocalGet(0)), 0, "y")  # noqa: E731
    function = body(again(), again())
    load_store_to_variable(function)
    assert function_text(function).count("f32.load") == 1
    written = Store("f32.store", LocalGet(0), Const("f32", 1.0), 0, "x")
    function = body(again(), written, again())
    load_store_to_variable(function)
    assert function_text(function).count("f32.load") == 2
    moved = LocalSet(0, plus(LocalGet(0), 4))
    function = body(again(), moved, again())
    load_store_to_variable(function)
    assert function_text(function).count("f32.load") == 2


def test_a_load_under_a_condition_serves_nobody_after_it() -> None:
    store = lambda: Store("f32.store", LocalGet(1), load(LocalGet(0)), 0, "y")  # noqa: E731
    function = body(IfElse(LocalGet(1), [store()]), Loop([store()], i32(0)), store())
    load_store_to_variable(function)
    assert function_text(function).count("f32.load") == 3


def test_text_names_parameters() -> None:
    assert lines(body(LocalSet(2, load(LocalGet(1))))) == [
        "(func $run (param $x i32) (param $y i32)",
        "(local.set $2 (f32.load (local.get $y)))",
        ")",
    ]


def vector(local: int) -> LocalGet:
    return LocalGet(local)


def multiply(a: int, b: int) -> Op:
    return Op("f32x4.mul", (vector(a), vector(b)))


@pytest.mark.parametrize(
    ("value", "fused"),
    [
        (Op("f32x4.add", (multiply(1, 2), vector(3))), ("f32x4.relaxed_madd", 1, 2, 3)),
        (Op("f32x4.add", (vector(3), multiply(1, 2))), ("f32x4.relaxed_madd", 1, 2, 3)),
        (Op("f32x4.sub", (vector(3), multiply(1, 2))), ("f32x4.relaxed_nmadd", 1, 2, 3)),
        (Op("f32x4.sub", (multiply(1, 2), vector(3))), None),
        (Op("f32x4.max", (multiply(1, 2), vector(3))), None),
    ],
)
def test_fuse_multiply_add(value: Op, fused: tuple[object, ...] | None) -> None:
    function = Function(["p"], ["v128"] * 3, {}, [LocalSet(1, value)])
    fuse_multiply_add(function)
    (statement,) = function.body
    assert isinstance(statement, LocalSet) and isinstance(statement.value, Op)
    if fused is None:
        assert statement.value is value
    else:
        name, *operands = fused
        assert statement.value.name == name
        assert [a.local for a in statement.value.args if isinstance(a, LocalGet)] == operands


def test_hoist_constants_once_for_each_innermost_loop() -> None:
    one, two = Const("v128", bytes(16)), Const("v128", b"\1" * 16)
    again = Op("i32.lt_s", (LocalGet(0), Const("i32", 9)))
    inner = Loop([LocalSet(1, Op("f32x4.add", (one, Op("f32x4.mul", (one, two)))))], again)
    outside = LocalSet(1, two)
    function = Function(["p"], ["v128"], {}, [Loop([outside, inner], again)])
    hoist_constants(function)
    (outer,) = function.body
    assert isinstance(outer, Loop)
    kept, first, second, loop = outer.body
    assert kept is outside, "only constants of the innermost loop move"
    assert isinstance(first, LocalSet) and isinstance(second, LocalSet)
    assert {id(first.value), id(second.value)} == {id(one), id(two)}
    assert isinstance(loop, Loop)
    assert function_text(function).count("v128.const") == 3
    hoist_constants(function, whole=True)
    *constants, outer = function.body
    assert len(constants) == 2, "each constant once in a call"
    assert function_text(function).count("v128.const") == 2
