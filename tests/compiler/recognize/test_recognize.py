"""The matmul in a program is found with its strides, and only where there is one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matmul_programs import dense, f32, plus, rebuilt, times

from nnjit_studio.compiler.ir.tensor_ir import Axis, Binary, Call, Expr, Load, Program, Store, Var
from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Operand
from nnjit_studio.compiler.recognize.labels import epilogue_labels
from nnjit_studio.compiler.recognize.matmul import recognize


def test_a_plain_matmul_stores_the_accumulator() -> None:
    found = recognize(dense(5, 7, 8, "none"))
    assert found is not None
    assert (found.m, found.k, found.n, found.batch) == (5, 7, 8, ())
    assert found.a == Operand("a", 0, (), 7, 1)
    assert found.b == Operand("w", 0, (), 8, 1)
    assert found.packable
    assert found.epilogue == (Store("out", plus(times("m", 8), Var("n")), Var(ACCUMULATOR)),)
    assert found.labels == ()


@pytest.mark.parametrize(("tail", "labels"), [("bias", ("bias",)), ("gelu", ("bias", "gelu"))])
def test_epilogues_are_inlined_and_named(tail: str, labels: tuple[str, ...]) -> None:
    found = recognize(dense(5, 7, 8, tail))
    assert found is not None
    assert found.labels == labels
    assert "acc" not in {e for e in repr(found.epilogue).split("'")}


def test_split_columns_become_a_batch_axis_without_stride_in_a() -> None:
    found = recognize(dense(5, 7, 8, "heads"))
    assert found is not None
    assert found.batch == (Axis("b0", 2),)
    assert (found.m, found.k, found.n) == (5, 7, 4)
    assert found.a.batch == (0,) and found.b.batch == (4,)
    assert found.packable  # each batch has a range of the weight's columns


def test_a_column_output_swaps_the_operands() -> None:
    found = recognize(dense(6, 3, 1, "none"))
    assert found is not None
    assert (found.m, found.n, found.a.buffer, found.b.buffer) == (1, 6, "w", "a")
    assert (found.b.row, found.b.column) == (1, 3)


@pytest.mark.parametrize("tail", ["none", "bias", "gelu", "heads"])
@pytest.mark.parametrize(("m", "k", "n"), [(5, 7, 8), (1, 3, 4), (6, 1, 4), (4, 5, 12)])
def test_the_contraction_computes_what_the_program_does(tail: str, m: int, k: int, n: int) -> None:
    program = dense(m, k, n, tail)
    found = recognize(program)
    assert found is not None
    rng = np.random.default_rng(2)
    names = ("a", "w", "bias")
    sizes = (m * k, k * n, n)
    inputs = {name: rng.standard_normal(s) for name, s in zip(names, sizes, strict=True)}
    expected = evaluate(program, inputs)["out"]
    np.testing.assert_allclose(
        evaluate(rebuilt(program, found), inputs)["out"], expected, atol=1e-12
    )


def changed(program: Program, **parts: object) -> Program:
    return replace(program, stages=(replace(program.stages[0], **parts), *program.stages[1:]))  # type: ignore[arg-type]


def test_what_is_no_matmul_is_none() -> None:
    program = dense(5, 7, 8, "none")
    stage = program.stages[0]
    target, value = stage.body[0], stage.body[0].value
    assert isinstance(value, Binary)
    maximum = replace(target, value=Binary("max", value.a, value.b))
    assert recognize(changed(program, body=(maximum,))) is None
    assert recognize(changed(program, init=(replace(stage.init[0], value=f32(1.0)),))) is None
    square = Load("a", plus(times("i", 7), Var("r")))
    sums = replace(target, value=value.a + square * square)
    assert recognize(changed(program, body=(sums,))) is None
    assert recognize(replace(program, stages=(stage, stage))) is None
    assert recognize(replace(program, stages=())) is None


def test_words_of_an_epilogue() -> None:
    program = dense(5, 7, 8, "bias")
    total = Var(ACCUMULATOR)
    cube = total * (total * total)
    inner = f32(0.8) * (total + f32(0.04) * cube)
    tanh = f32(1.0) + Call("tanh", (inner,))
    residual = Load("a", plus(times("m", 8), Var("n")))
    words: dict[tuple[str, ...], Expr] = {
        ("gelu",): f32(0.5) * total * tanh,
        ("silu",): total * Call("sigmoid", (total,)),
        ("scale", "relu"): Binary("max", total / 8.0, f32(0.0)),
        ("residual", "tanh"): Call("tanh", (residual + total,)),
        ("add",): total + 1.0,
    }
    assert {epilogue_labels(e, program, "m", "n") for e in words.values()} == set(words)
    assert all(epilogue_labels(e, program, "m", "n") == w for w, e in words.items())
