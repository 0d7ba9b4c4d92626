"""The memory plan never lets two living tensors share a byte."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import engine, run_kernel
from matmul_programs import dense
from small_programs import softmax

from nnjit_studio.compiler.importer.build import build
from nnjit_studio.compiler.importer.names import OnnxNames
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.compiler.ir.in_place import in_place
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Const,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.softmax import overwritten
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.model import PlanBuffer
from nnjit_studio.model.storage import Lifetime, aligned, plan_offsets

lifetimes = st.builds(
    lambda nbytes, first, length: Lifetime(nbytes, first, first + length),
    st.integers(1, 5000),
    st.integers(0, 20),
    st.integers(0, 8),
)


@settings(max_examples=200)
@given(st.lists(lifetimes, max_size=30))
def test_no_overlap_while_alive(items: list[Lifetime]) -> None:
    offsets, total = plan_offsets(items)
    for i, a in enumerate(items):
        assert offsets[i] % 64 == 0
        assert offsets[i] + a.nbytes <= total
        for j, b in enumerate(items[:i]):
            if a.first <= b.last and b.first <= a.last:
                assert offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]


def test_memory_is_used_again() -> None:
    chain = [Lifetime(1000, i, i + 1) for i in range(20)]
    _, total = plan_offsets(chain)
    assert total == 2 * aligned(1000)


def test_a_workspace_lies_where_the_result_will() -> None:
    program = softmax(5, 18)
    shared = in_place(program)
    assert shared == {"e": "y"}
    x = np.random.default_rng(1).standard_normal((5, 18)).astype(np.float32)
    kernel = compile_program(program, None, "simd128")
    extent = kernel.parallel_extent
    apart = run_kernel(program, kernel.data, extent, {"x": x}, (), 2)
    together = run_kernel(program, kernel.data, extent, {"x": x}, (), 2, shared)
    assert np.array_equal(together["y"], apart["y"])


def test_a_workspace_read_elsewhere_than_written_keeps_its_place() -> None:
    """The last stage writes ``out[i]`` and reads ``ws[n - 1 - i]``."""
    size = 8
    i = Var("i")
    back = Const(size - 1, "i32") - i
    axes = (Axis("i", size),)
    stages = (
        Stage("copy", axes, (Store("ws0", i, Load("in0", i)),)),
        Stage("turn", axes, (Store("out0", i, Load("ws0", back)),)),
    )
    buffers = tuple(
        Buffer(name, "f32", (size,), role)
        for name, role in (("in0", "input"), ("out0", "output"), ("ws0", "workspace"))
    )
    assert in_place(Program("turn", buffers, stages)) == {}


def in_one_place(program: Program, x: np.ndarray, parts: int) -> np.ndarray:
    """What a kernel leaves where its input, its output and its shared workspace all lie."""
    kernel = compile_program(program, None, "relaxed-simd")
    store = wasmtime.Store(engine())
    memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(8, None)))
    memory.write(store, x.tobytes(), 1024)
    here = {"x", "y", *in_place(program)}
    pointers = [1024 if b.name in here else 65536 * (1 + i) for i, b in enumerate(program.buffers)]
    module = wasmtime.Module(engine(), kernel.data)
    run = wasmtime.Instance(store, module, [memory]).exports(store)["run"]
    edges = [kernel.parallel_extent * i // parts for i in range(parts + 1)]
    for begin, end in reversed(list(pairwise(edges))):
        run(store, *pointers, begin, end)
    return np.frombuffer(memory.read(store, 1024, 1024 + x.nbytes), np.float32).reshape(x.shape)


@pytest.mark.parametrize("columns", [4, 15, 16, 35, 64])
def test_a_softmax_runs_over_its_input(columns: int) -> None:
    program = softmax(7, columns)
    assert overwritten(program) == "x"
    x = np.random.default_rng(1).normal(0, 3, (7, columns)).astype(np.float32)
    kernel = compile_program(program, None, "relaxed-simd")
    apart = run_kernel(program, kernel.data, kernel.parallel_extent, {"x": x})["y"]
    for parts in (1, 3):
        np.testing.assert_array_equal(in_one_place(program, x, parts), apart)


def test_only_a_softmax_that_reads_where_it_writes_may() -> None:
    program = softmax(7, 16)
    last = program.stages[3]
    (store,) = last.body
    again = store.value + Load("x", store.index)  # read when it is gone
    turned = Store("y", Const(7 * 16 - 1, "i32") - store.index, store.value)
    for changed in (Store("y", store.index, again), turned):
        stages = (*program.stages[:3], replace(last, body=(changed,)))
        assert overwritten(replace(program, stages=stages)) is None
    x, *others = program.buffers
    assert overwritten(replace(program, buffers=(replace(x, constant=True), *others))) is None
    assert overwritten(dense(3, 4, 5)) is None


def planned(again: bool, rows: int = 512, columns: int = 600) -> list[PlanBuffer]:
    """Input and output of a softmax between two products; ``again``: the model gives the first."""
    names = iter("abcdefgh")

    def product(a: Value, n: int) -> ProgramCall:
        weight = np.ones((a.shape[1], n), np.float32)
        inputs = (a, Value(next(names), weight.shape, "f32", weight))
        out = Value(next(names), (rows, n), "f32")
        return ProgramCall(dense(rows, a.shape[1], n, "none"), inputs, (out,))

    x = Value("x", (rows, 8), "f32")
    first = product(x, columns)
    (scores,) = first.outputs
    shares = Value("shares", scores.shape, "f32")
    middle = ProgramCall(softmax(rows, columns), (scores,), (shares,))
    last = product(shares, 4)
    outputs = (*last.outputs, *([scores] if again else []))
    calls = ImportedCalls((x,), outputs, (first, middle, last))
    with TemporaryDirectory() as folder:
        labels = ["out", "scores"][: len(outputs)]
        plan = build("m", calls, OnnxNames(["x"], labels), Path(folder) / "w.bin", Import()).plan
    step = plan.steps[1]
    return [plan.buffers[step.args[i]] for i in (0, 1)]


def test_the_plan_lays_a_large_softmax_over_an_input_that_ends_there() -> None:
    scores, shares = planned(again=False)
    assert (scores.offset, scores.nbytes) == (shares.offset, shares.nbytes)
    for kept in (planned(again=True), planned(again=False, rows=16)):
        first, second = sorted(kept, key=lambda b: b.offset)
        assert first.offset + first.nbytes <= second.offset
