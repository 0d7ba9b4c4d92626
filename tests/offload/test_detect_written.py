"""Verdicts of loops that are written here, by instructions."""

from __future__ import annotations

import pytest
from wasm_builder import END, module, op

from nnjit_studio.foreign_wasm.offload.detect import verdicts
from nnjit_studio.wasm_file.module import read

POINTER, COUNTER, PREVIOUS = 0, 2, 3
I32_AND_F32 = b"\2\1\x7f\1\x7d"


def verdict_of(body: bytes) -> str:
    (verdict,) = verdicts(read(module([body], {})))
    return verdict.pattern or verdict.reason


def loaded(offset: int) -> bytes:
    return op("local.get", POINTER) + op("f32.load", 2, offset, 0)


def loop(stored: bytes) -> bytes:
    """A thousand floats, each stored 64 KiB behind the pointer."""
    store = op("local.get", POINTER) + stored + op("f32.store", 2, 65536, 0)
    moved = op("local.get", POINTER) + op("i32.const", 4) + op("i32.add")
    counted = op("local.get", COUNTER) + op("i32.const", 1) + op("i32.add")
    again = op("local.tee", COUNTER) + op("i32.const", 1000) + op("i32.ne") + op("br_if", 0)
    return op("loop", -64) + store + moved + op("local.set", POINTER) + counted + again + END


def carried(between: bytes) -> bytes:
    """Sums of neighbours; instructions between the load of the first and its way into a local."""
    first = loaded(0) + between + op("local.set", PREVIOUS)
    neighbours = op("local.get", PREVIOUS) + loaded(4) + op("local.tee", PREVIOUS)
    return I32_AND_F32 + first + loop(neighbours + op("f32.add")) + END


def test_a_value_of_the_iteration_before_is_read_from_memory() -> None:
    assert verdict_of(carried(b"")) == "element-wise"


def test_what_waits_on_the_stack_while_memory_changes_is_not_what_memory_holds() -> None:
    store = op("local.get", POINTER) + op("f32.const", 7) + op("f32.store", 2, 0, 0)
    assert verdict_of(carried(store)) == "recurrence"


@pytest.mark.parametrize("name", ["f32.add", "f32.sub", "f32.mul", "f32.div"])
def test_an_expression_deeper_than_functions_can_recurse_stays(name: str) -> None:
    """As long ones do; a verdict must not depend on how deep the caller's stack is."""
    for operations, wanted in ((100, "offload"), (900, "size")):
        stored = loaded(0) + (loaded(4) + op(name)) * operations
        found = verdict_of(I32_AND_F32 + loop(stored) + END)
        assert (found == "size") == (wanted == "size")


def test_a_loop_that_sets_a_global_is_told_so() -> None:
    """It is understood, and has an effect that a kernel has not."""
    assert (
        verdict_of(I32_AND_F32 + loop(op("i32.const", 1) + op("global.set", 0) + loaded(4)) + END)
        == "global"
    )


def test_a_loop_in_a_thousand_blocks_stays() -> None:
    """An interpreter's switch: the native part of a .NET application has one."""
    block = op("block", -64)
    inner = I32_AND_F32 + block * 1000 + loop(loaded(0)) + END * 1001
    assert verdict_of(inner) == "size"
