"""The memory plan never lets two living tensors share a byte."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import run_kernel
from small_programs import softmax

from nnjit_studio.compiler.importer.memory import Lifetime, aligned, plan_offsets
from nnjit_studio.compiler.in_place import in_place
from nnjit_studio.compiler.pipeline import compile_program
from nnjit_studio.compiler.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Const,
    Load,
    Program,
    Stage,
    Store,
    Var,
)

lifetimes = st.builds(
    lambda nbytes, first, length: Lifetime(nbytes, first, first + length),
    st.integers(1, 5000),
    st.integers(0, 20),
    st.integers(0, 8),
)


@settings(max_examples=200, deadline=None, derandomize=True)
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
    back = Binary("sub", Const(size - 1, "i32"), i)
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
