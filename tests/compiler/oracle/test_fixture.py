"""A fixture accepts every order of summation in f32, and nothing that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from byte_products import byte_product
from matmul_programs import dense
from numpy.typing import NDArray

from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Load, Program, Stage, Store, Var
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.recognize.quantised import in_words
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.records import Fixture

Array = NDArray[Any]


def operands(fixture: Fixture, m: int, k: int, n: int) -> tuple[Array, Array]:
    a, w = (np.frombuffer(x.data or b"", np.float32) for x in fixture.args[:2])
    return a.reshape(m, k), w.reshape(k, n)


def ratio(fixture: Fixture, got: Array) -> float:
    difference = np.abs(got.reshape(-1).astype(np.float64) - fixture.expected[0])
    return float((difference / fixture.bound[0]).max())


def in_order(a: Array, w: Array, order: Array) -> Array:
    total = np.zeros((a.shape[0], w.shape[1]), np.float32)
    for k in order:
        total += a[:, k : k + 1] * w[k]
    return total


@pytest.mark.parametrize("k", [1, 2, 7, 64, 384, 3072])
def test_every_order_of_summation_passes(k: int) -> None:
    fixture = make_fixture("w", dense(6, k, 8, "none"))
    a, w = operands(fixture, 6, k, 8)
    orders = [np.arange(k), np.arange(k)[::-1], np.random.default_rng(3).permutation(k)]
    results = [in_order(a, w, order) for order in orders]
    halves = [in_order(a[:, i::4], w[i::4], np.arange(len(w[i::4]))) for i in range(4)]
    fused = np.zeros((6, 8), np.float32)
    for i in range(k):  # One rounding a step, as fma does.
        fused = (fused.astype(np.float64) + np.outer(a[:, i], w[i].astype(np.float64))).astype(
            np.float32
        )
    results += [sum(halves[1:], halves[0]), fused, a @ w]
    assert max(ratio(fixture, r) for r in results) <= 1


@pytest.mark.parametrize("k", [7, 384, 3072])
def test_a_missing_step_and_misplaced_tiles_fail(k: int) -> None:
    fixture = make_fixture("w", dense(6, k, 8, "none"))
    a, w = operands(fixture, 6, k, 8)
    right = a @ w
    missing = a[:, :-1] @ w[:-1]
    bounds = fixture.bound[0].reshape(6, 8)
    assert (np.abs(missing - right) > bounds).all()
    tail = right.copy()
    tail[-1, -1] = 0
    wrong = [np.roll(right, 1, 0), np.roll(right, 4, 1), tail, a @ w.reshape(8, k).T]
    assert min(ratio(fixture, r) for r in wrong) > 1


def test_equal_seeds_give_equal_bytes_and_weights_are_packable() -> None:
    first, again = (make_fixture("w", dense(5, 7, 8, "gelu")) for _ in range(2))
    assert [a.data for a in first.args] == [a.data for a in again.args]
    assert first.args[0].data != make_fixture("other", dense(5, 7, 8, "gelu")).args[0].data
    assert [a.pack for a in first.args] == [None, (7, 8), None, None, None]
    assert [a.role for a in first.args] == ["input"] * 3 + ["output", "workspace"]


@pytest.mark.parametrize("spec", ["matmul:700x9x600:f32", "attention:2x300x300x8:f32"])
def test_a_reference_tells_each_block_that_it_got_on(spec: str) -> None:
    """The parent waits for the next one: on a busy machine all of them took 600 seconds."""
    told: list[int] = []
    make_fixture(spec, program_for(spec), got_on=lambda: told.append(1))
    assert len(told) > 2


def test_indices_are_valid_for_what_they_gather() -> None:
    buffers = (
        Buffer("table", "f32", (3,), "input"),
        Buffer("ids", "i64", (50,), "input"),
        Buffer("y", "f32", (50,), "output"),
    )
    store = Store("y", Var("i"), Load("table", Load("ids", Var("i"))))
    fixture = make_fixture(
        "take", Program("take", buffers, (Stage("s", (Axis("i", 50),), (store,)),))
    )
    ids = np.frombuffer(fixture.args[1].data or b"", np.int64)
    assert set(ids.tolist()) == {0, 1, 2}


def test_operands_of_a_product_of_bytes_are_any_bytes_and_have_their_sums() -> None:
    m, k, n = 6, 64, 24
    fixture = make_fixture("bytes", byte_product(m, k, n, "i8"))
    a, b = (np.frombuffer(arg.data or b"", np.int8) for arg in fixture.args[:2])
    assert a.min() < -100 and a.max() > 100
    words = b.reshape(k // 4 + 1, n, 4)
    weight = words[:-1].transpose(0, 2, 1).reshape(k, n)
    np.testing.assert_array_equal(words, in_words(weight))
    np.testing.assert_array_equal(
        fixture.expected[0].reshape(m, n), a.reshape(m, k).astype(int) @ weight
    )
