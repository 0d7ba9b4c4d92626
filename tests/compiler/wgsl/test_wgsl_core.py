"""Programs that are no tuned products: from tensor IR to WGSL, run against float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from small_programs import matmul_bias, softmax
from wgsl_harness import has_subgroups, run_document, run_program
from wgsl_programs import PROGRAMS, concatenation, layer_norm, scattered_bytes

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.pipeline import wgsl as pipeline
from nnjit_studio.compiler.pipeline.wgsl import WGSL_PASSES, compile_wgsl
from nnjit_studio.compiler.wgsl.core.document import KernelDocument
from nnjit_studio.compiler.wgsl.core.functions import SOURCES
from nnjit_studio.compiler.wgsl.core.peak import copy_document, peak_document
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.gpu_candidate import GpuCandidate

GOLDEN: dict[str, Program] = {
    "wgsl_softmax": softmax(3, 20),
    "wgsl_matmul": matmul_bias(4, 8, 6),
    "wgsl_bytes": scattered_bytes(2, 5),
}


@pytest.fixture
def without_templates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pipeline, "match", lambda program: None)
    yield


def check(program: Program, tier: str) -> KernelDocument:
    """Every output within its bound; inputs as they were."""
    fixture = make_fixture(program.name, program)
    document = KernelDocument.from_bytes(compile_wgsl(program, None, tier).data)
    arguments = [arg.nbytes if arg.data is None else arg.data for arg in fixture.args]
    after = run_document(document, arguments)
    outputs = []
    for arg, got in zip(fixture.args, after, strict=True):
        if arg.role == "input":
            assert got == arg.data
        elif arg.role == "output":
            outputs.append(got)
    for got, expected, bound in zip(outputs, fixture.expected, fixture.bound, strict=True):
        values = np.frombuffer(got, expected.dtype).astype(np.float64)
        assert np.all(np.abs(values - expected.astype(np.float64)) <= bound)
    return document


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("without_templates")
def test_odd_sizes(name: str) -> None:
    check(PROGRAMS[name], "wgsl")


@pytest.mark.parametrize("name", ["softmax of long rows", "softmax of one row", "one sum"])
@pytest.mark.usefixtures("without_templates")
def test_with_subgroups(name: str) -> None:
    if not has_subgroups():
        pytest.skip("the adapter has no subgroups")
    assert check(PROGRAMS[name], "wgsl-subgroups").requires == ("subgroups",)


@pytest.mark.parametrize(
    ("columns", "written"),
    [
        (1024, "let q = member;"),
        (4096, "let q = member;"),
        (5120, "turn < 5"),
        (4104, "for (var q = member; "),
    ],
    ids=["once", "together", "a loop of known length", "uneven"],
)
@pytest.mark.usefixtures("without_templates")
def test_vectors_of_a_few_turns_are_loaded_together(columns: int, written: str) -> None:
    program, rng = layer_norm(2, columns), np.random.default_rng(columns)
    data = compile_wgsl(program, None, "wgsl").data
    (dispatch,) = KernelDocument.from_bytes(data).dispatches
    assert written in dispatch.code
    x, g, b = (rng.normal(size=s).astype(np.float32) for s in ((2, columns), columns, columns))
    got = run_program(program, data, {"x": x, "g": g, "b": b})["y"]
    wide = x.astype(np.float64)
    apart = wide - wide.mean(1, keepdims=True)
    exact = apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5) * g + b
    np.testing.assert_allclose(got, exact, atol=1e-5)


@pytest.mark.usefixtures("without_templates")
def test_rows_use_subgroups_where_the_tier_has_them() -> None:
    plain, with_them = (
        KernelDocument.from_bytes(compile_wgsl(layer_norm(5, 384), None, tier).data)
        for tier in GPU_TIERS
    )
    assert plain.requires == ()
    assert with_them.requires == ("subgroups",)
    (dispatch,) = with_them.dispatches
    assert dispatch.code.startswith("enable subgroups;\n")
    assert "subgroupAdd" in dispatch.code and "subgroup" not in plain.dispatches[0].code


@pytest.mark.usefixtures("without_templates")
def test_a_fused_tail_keeps_the_sums_in_registers() -> None:
    document = KernelDocument.from_bytes(compile_wgsl(matmul_bias(8, 8, 8), None, "wgsl").data)
    (dispatch,) = document.dispatches
    assert dispatch.bindings == ("a0", "a1", "a2", "a3"), "the workspace a4 is not needed"


def test_more_buffers_than_a_dispatch_may_bind() -> None:
    data = compile_wgsl(concatenation(20, 3), None, "wgsl").data
    document = KernelDocument.from_bytes(data)
    assert len(document.dispatches) > 1
    assert all(len(d.bindings) <= 8 for d in document.dispatches)
    bound = {name for d in document.dispatches for name in d.bindings}
    assert bound == {f"a{i}" for i in range(21)}


def test_many_workgroups_fold_into_two_dimensions() -> None:
    n = 65535 * 64 * 4 + 4
    program = Program(
        "large",
        (Buffer("x", "f32", (n,), "input"), Buffer("y", "f32", (n,), "output")),
        (Stage("y", (Axis("i", n),), (Store("y", Var("i"), Load("x", Var("i"))),)),),
    )
    (dispatch,) = KernelDocument.from_bytes(compile_wgsl(program, None, "wgsl").data).dispatches
    assert dispatch.workgroups == (65535, 2, 1)
    assert "wg.y" in dispatch.code


def test_equal_input_gives_equal_bytes() -> None:
    program = PROGRAMS["softmax"]
    first, again = (compile_wgsl(program, None, "wgsl").data for _ in range(2))
    assert first == again
    assert KernelDocument.from_bytes(first).to_bytes() == first


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(CompileError, match="no GPU tier simd128"):
        compile_wgsl(softmax(2, 3), None, "simd128")
    with pytest.raises(CompileError, match="no pass lower"):
        compile_wgsl(softmax(2, 3), None, "wgsl", dump_after="lower")
    with pytest.raises(CompileError, match="takes candidates for softmax"):
        compile_wgsl(softmax(2, 3), GpuCandidate(4, 4, 1, 32, 32, 8), "wgsl")
    power = Binary("pow", Load("x", Var("i")), Load("x", Var("i")))
    buffers = (Buffer("x", "i32", (4,), "input"), Buffer("y", "i32", (4,), "output"))
    program = Program(
        "power", buffers, (Stage("y", (Axis("i", 4),), (Store("y", Var("i"), power),)),)
    )
    with pytest.raises(CompileError, match="pow of i32"):
        compile_wgsl(program, None, "wgsl")
    short = b'{"version":1,"dispatches":[{"code":"","workgroups":[1]}]}'
    for data in (b"\0asm", b"{}", b'{"version": 2}', short):
        with pytest.raises(UserError, match="no kernel document"):
            KernelDocument.from_bytes(data)


def test_limit_kernels_run() -> None:
    peak, flops = peak_document(4)
    run_document(peak, [])
    assert flops == 2 * 4 * 8 * 4 * 64 * 256 * 4
    copy, moved = copy_document(4112)
    blob = bytes(range(256)) * 16 + bytes(16)
    assert run_document(copy, [blob, len(blob)])[1] == blob
    assert moved == 2 * len(blob)


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("position", range(1, len(WGSL_PASSES) - 1), ids=WGSL_PASSES[1:-1])
@pytest.mark.usefixtures("without_templates")
def test_text_after_pass(name: str, position: int, golden: Callable[[str, str], None]) -> None:
    step = WGSL_PASSES[position]
    artifact = compile_wgsl(GOLDEN[name], None, "wgsl-subgroups", dump_after=step)
    golden(f"{name}.{position}.{step}.txt", artifact.dump)


def test_no_function_asks_for_the_remainder_of_numbers_that_may_be_negative() -> None:
    """Vulkan leaves it undefined, and wgpu-native hands it over as it is."""
    assert not [name for name, source in SOURCES.items() if "%" in source]
