"""The text after each named pass, as files that a reviewer reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from small_programs import matmul_bias, softmax

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import PASSES, compile_program
from nnjit_studio.records.candidate import Candidate

CASES: dict[str, tuple[Program, Candidate | None]] = {
    "matmul": (matmul_bias(4, 8, 6), Candidate(8, 2, 2, 8, 2, 6)),
    "softmax": (softmax(3, 20), None),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("position", range(len(PASSES)), ids=PASSES)
def test_text_after_pass(name: str, position: int, golden: Callable[[str, str], None]) -> None:
    program, candidate = CASES[name]
    step = PASSES[position]
    artifact = compile_program(program, candidate, "relaxed-simd", dump_after=step)
    golden(f"{name}.{position}.{step}.txt", artifact.dump)


def test_bytes_equal_what_the_dump_shows() -> None:
    program, candidate = CASES["matmul"]
    artifact = compile_program(program, candidate, "simd128", dump_after="encode")
    assert bytes.fromhex(artifact.dump) == artifact.data
