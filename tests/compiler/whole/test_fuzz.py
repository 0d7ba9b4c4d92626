"""A short run of the fuzzer, and that it sees planted faults."""

from __future__ import annotations

from dataclasses import replace

import fuzz_kernels
import pytest

from nnjit_studio.compiler.ir.tensor_ir import Program, Store
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.records.candidate import Candidate


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_wrong_result() -> None:
    counts, wrong = fuzz_kernels.fuzz(400, 5)
    assert wrong == []
    assert counts["cases"] >= 400
    assert counts["unknown"] < 0.6 * counts["elements"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fault", ["off by 1e-4", "index off by one"])
def test_a_planted_fault_is_seen(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def last(store: Store) -> Store:
        if fault == "off by 1e-4":
            return replace(store, value=store.value * 1.0001)
        return replace(store, index=store.index + 1)

    def faulty(program: Program, candidate: Candidate | None, tier: str) -> Artifact:
        stage = program.stages[-1]
        changed = replace(stage, body=tuple(last(s) for s in stage.body))
        broken = replace(program, stages=(*program.stages[:-1], changed))
        return compile_program(broken, None, tier)

    monkeypatch.setattr(fuzz_kernels, "compile_program", faulty)
    _, wrong = fuzz_kernels.fuzz(80, 5)
    assert len(wrong) >= 10
