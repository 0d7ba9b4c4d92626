"""Texts after each pass, and which of their lines correspond."""

from __future__ import annotations

import pytest
from small_programs import matmul_bias, softmax

from nnjit_studio.analysis.kernel.facts import loop_facts, wasm_facts
from nnjit_studio.analysis.kernel.line_map import LineMap, maps_of
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, PASSES, compile_program
from nnjit_studio.compiler.pipeline.wgsl import WGSL_PASSES
from nnjit_studio.compiler.process.inspection import kernel_texts
from nnjit_studio.compiler.process.results import KernelTexts
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.wgsl.core.document import KernelDocument
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import parse_candidate

BLOCKED = "x0=8,y0=4,r0=2,x1=8,y1=4,r1=48"
TILED = "x0=4,y0=4,r0=4,x1=32,y1=32,r1=16,split=2,vec=4"


def texts(program: object, settings: str, tier: str) -> KernelTexts:
    candidate = parse_candidate(settings) if settings else None
    return kernel_texts("w", program, candidate, tier, OPTIONAL_PASSES)  # type: ignore[arg-type]


def partners(found: LineMap, before: str, after: str, words: str) -> list[str]:
    """Lines of the second text that belong to the line of the first with these words in it."""
    (number,) = [i for i, line in enumerate(before.splitlines()) if words in line]
    return [after.splitlines()[i].strip() for i in sorted(found.forward[number])]


def test_every_pass_has_its_text_and_the_kernel_is_the_compiled_one() -> None:
    program = program_for("matmul:64x96x64:f32")
    found = texts(program, BLOCKED, "relaxed-simd")
    assert tuple(p.name for p in found.passes) == PASSES
    assert [p.form for p in found.passes] == ["loops", *["wasm"] * 6, "bytes"]
    assert all(p.ms > 0 for p in found.passes)
    artifact = compile_program(program, parse_candidate(BLOCKED), "relaxed-simd")  # type: ignore[arg-type]
    assert found.kernel.data == artifact.data
    assert found.passes[-1].text.startswith("000000  00 61 73 6d")
    assert found.moved_bytes == 4 * (64 * 96 + 96 * 64 + 64 * 64)


def test_wgsl_has_its_own_passes() -> None:
    found = texts(softmax(8, 16), "", "wgsl")
    assert tuple(p.name for p in found.passes) == WGSL_PASSES
    assert [p.form for p in found.passes] == ["", "stages", "dispatches", "wgsl", "bytes"]
    code = KernelDocument.from_bytes(found.kernel.data).dispatches[0].code
    assert code in found.passes[3].text


def test_settings_of_another_backend_are_refused() -> None:
    with pytest.raises(CompileError, match="of a WGSL kernel"):
        texts(program_for("matmul:64x96x64:f32"), TILED, "simd128")


def test_tensor_ir_shows_where_a_reduction_begins() -> None:
    lines = texts(matmul_bias(8, 16, 32), "", "simd128").program.splitlines()
    first = next(i for i, line in enumerate(lines) if line.endswith("] = 0.0"))
    assert lines[first + 1].strip() == "for rk in range(0, 32, 1):  # reduction"
    assert lines[first + 2].startswith(lines[first].split("sum")[0] + "  sum[")


def test_statements_of_the_schedule_lead_to_their_instructions() -> None:
    found = texts(program_for("matmul:64x96x64:f32+bias+gelu"), BLOCKED, "relaxed-simd")
    loops, code = found.passes[0].text, found.passes[-2].text
    _, to_code, _ = maps_of(found.program, loops, code, "wasm", found.buffers)
    assert to_code is not None
    (only,) = partners(to_code, loops, code, "B0 = in1[$panel*768 + $k*8 + 8]")[-1:]
    loads = partners(to_code, loops, code, "B0 = in1[$panel*768 + $k*8 + 8]")
    assert any(line.startswith("(local.set $B0.") and "offset=32" in line for line in loads)
    assert not any("$acc" in line for line in loads)
    assert "$in1." in only  # how its address moves on
    (store,) = [
        line
        for line in partners(to_code, loops, code, "out0[$m*64 + $n + 192] = acc3_0")
        if ".store" in line
    ]
    assert store.endswith("(local.get $acc3_0.21))") and "offset=768" in store
    loop = partners(to_code, loops, code, "for $k in")
    assert "(loop" in loop and any("br_if" in line for line in loop)


def test_nearly_every_statement_of_the_loops_has_a_partner() -> None:
    for program, settings in (
        (program_for("matmul:64x96x64:f32+bias"), BLOCKED),
        (program_for("conv2d:1x16x14x14x32x3x3x1x1x1x1:f32"), ""),
        (softmax(8, 16), ""),
    ):
        found = texts(program, settings, "simd128")
        loops, code = found.passes[0].text, found.passes[-2].text
        _, to_code, _ = maps_of(found.program, loops, code, "wasm", found.buffers)
        assert to_code is not None
        alone = [
            line.strip()
            for line, mine in zip(loops.splitlines(), to_code.forward, strict=True)
            if not mine
        ]
        known = ("parallel_extent", "if ", "else:", "scale = ")
        assert [line for line in alone if not line.startswith(known)] == []


def test_loops_are_found_again_in_wasm() -> None:
    found = texts(program_for("conv2d:1x16x14x14x32x3x3x1x1x1x1:f32"), "", "simd128")
    ours = {f.heads for f in loop_facts(found.passes[0].text, found.buffers) if f.heads}
    for p in found.passes[1:-1]:
        theirs = {f.heads for f in wasm_facts(p.text, found.buffers) if f.heads}
        assert theirs == ours, p.name


def test_tensor_ir_leads_to_wgsl_by_buffer() -> None:
    found = texts(program_for("matmul:64x96x64:f32+bias"), TILED, "wgsl")
    code = found.passes[3].text
    _, _, to_code = maps_of(found.program, "", code, "wgsl", found.buffers)
    product = partners(to_code, found.program, code, "(in0[((i * 96) + r)] * in1")
    assert "tileA[at] = vec4<f32>(nextA0_0.x, nextA0_1.x, nextA0_2.x, nextA0_3.x);" in product
    assert "c0_0 = fma(vec4<f32>(y0.x), x0, c0_0);" in product
    assert not any("arg2[" in line for line in product)
    tail = partners(to_code, found.program, code, "in2[j]")
    assert "let v0 = arg2[n / 4u];" in tail and "finish(m, n, sum);" in tail
    assert "var c0_0 = vec4<f32>();" in partners(to_code, found.program, code, "] = 0.0")


def test_index_arithmetic_belongs_to_no_statement() -> None:
    found = texts(program_for("matmul:64x96x64:f32"), TILED, "wgsl")
    code = found.passes[3].text
    _, _, to_code = maps_of(found.program, "", code, "wgsl", found.buffers)
    (row,) = [i for i, line in enumerate(code.splitlines()) if "let row = wg.y;" in line]
    assert to_code.back[row] == frozenset()
