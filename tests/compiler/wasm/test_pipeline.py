"""The compiler from a program to bytes: contract of the artifact, errors, peak kernel."""

from __future__ import annotations

import numpy as np
import pytest
import wasmtime
from kernel_harness import engine, run_kernel
from small_programs import matmul_bias, softmax

from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, PASSES, compile_program
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.compiler.wasm.peak import peak_kernel
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

SIX = Candidate(8, 6, 4, 8, 6, 64)


@pytest.mark.parametrize("candidate", [None, SIX, Candidate(4, 3, 1, 16, 12, 4, "mn", False)])
@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_kernel_passes_its_own_fixture(candidate: Candidate | None, tier: str) -> None:
    program = matmul_bias(13, 27, 10)
    fixture = make_fixture("matmul", program)
    inputs = {
        b.name: np.frombuffer(a.data, np.float32).reshape(b.shape)
        for b, a in zip(program.buffers, fixture.args, strict=True)
        if a.data is not None
    }
    kernel = compile_program(program, candidate, tier)
    got = run_kernel(program, kernel.data, kernel.parallel_extent, inputs, kernel.panels)
    error = np.abs(got["y"].ravel().astype(np.float64) - fixture.expected[0])
    assert np.all(error <= fixture.bound[0])


def test_artifact_keeps_its_promises() -> None:
    first = compile_program(matmul_bias(12, 24, 8), SIX, "relaxed-simd")
    again = compile_program(matmul_bias(12, 24, 8), SIX, "relaxed-simd")
    assert first.data == again.data
    assert first.panels == ((1, 8),)
    assert first.parallel_extent == 3
    assert tuple(first.pass_ms) == PASSES
    assert first.dump == ""
    assert COMPILER_VERSION
    assert first.data != compile_program(matmul_bias(12, 24, 8), SIX, "simd128").data


def test_each_pass_changes_the_code() -> None:
    program = matmul_bias(12, 24, 8)
    whole = compile_program(program, SIX, "simd128").data
    for name in OPTIONAL_PASSES:
        without = [p for p in OPTIONAL_PASSES if p != name]
        artifact = compile_program(program, SIX, "simd128", without)
        assert artifact.pass_ms[name] == 0.0
        assert len(artifact.data) > len(whole), name


def test_only_memory_is_imported_and_it_has_no_maximum() -> None:
    module = wasmtime.Module(engine(), compile_program(softmax(2, 5), None, "simd128").data)
    (memory,) = module.imports
    limits = memory.type.limits
    assert (memory.module, memory.name, limits.min, limits.max) == ("env", "memory", 1, None)
    (run,) = module.exports
    assert [str(p) for p in run.type.params] == ["i32"] * 7
    assert list(run.type.results) == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((softmax(2, 5), SIX, "simd128"), "not a matmul"),
        ((softmax(2, 5), None, "avx"), "tier avx"),
        ((softmax(2, 5), None, "simd128", ("fold",)), "pass fold"),
        ((softmax(2, 5), None, "simd128", (), "nothing"), "pass nothing"),
    ],
)
def test_errors_name_the_cause(arguments: tuple, word: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(CompileError, match=word) as caught:
        compile_program(*arguments)
    assert caught.value.hint


@pytest.mark.parametrize(("wide", "count"), [(False, 12), (True, 24)])
@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_peak_kernel_computes_and_keeps_its_result(tier: str, wide: bool, count: int) -> None:
    data, flops = peak_kernel(tier, wide)
    store = wasmtime.Store(engine())
    memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(1, None)))
    run = wasmtime.Instance(store, wasmtime.Module(engine(), data), [memory]).exports(store)["run"]
    run(store, 0, 0)
    start = np.frombuffer(memory.read(store, 0, 16 * count), np.float32)
    np.testing.assert_array_equal(start, np.repeat(np.arange(count, dtype=np.float32), 4))
    run(store, 2, 5)
    chains, addend = np.arange(count, dtype=np.float64), 5.0
    for _ in range(3 * 4):
        chains = chains * np.float32(0.999) + addend
    got = np.frombuffer(memory.read(store, 0, 16 * count), np.float32)
    np.testing.assert_allclose(got, np.repeat(chains, 4), rtol=1e-5)
    assert flops == count * 4 * 4 * 2
