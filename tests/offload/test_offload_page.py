"""The whole way in a browser, on a software adapter: swap, check, wrong kernels, a lost device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nnjit_studio.bench.gpu.offload_mutants import Mutant, mutants, originals
from nnjit_studio.foreign_wasm.offload.cases import Case
from nnjit_studio.foreign_wasm.offload.detect import verdicts
from nnjit_studio.foreign_wasm.offload.extract import ENTRY
from nnjit_studio.foreign_wasm.offload.job import (
    Where,
    case_of,
    nests_of,
    offloaded,
    run_cases,
)
from nnjit_studio.foreign_wasm.offload.rewrite import rewrite
from nnjit_studio.wasm_file.module import read

PLANTED = Path(__file__).parent / "planted" / "planted-o3-simd.wasm"
NAMES = ("elementwise_rows", "elementwise_in_place", "dot_start", "gemv_bias_relu")


def run(tmp_path: Path, cases: list[Case], mode: str, **known: Any) -> list[dict[str, Any]]:
    where = Where(tmp_path, no_sandbox=True, gpu="software")
    rows, _ = run_cases(cases, mode, where, lambda _: None, {}, **known)
    assert [r["mode"] for r in rows] == [mode] * len(cases)
    return rows


@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", ["jspi", "blocking"])
def test_planted_loops_in_a_page(tmp_path: Path, mode: str) -> None:
    found = {v.name: v for v in verdicts(read(PLANTED.read_bytes())) if v.found}
    made = [case_of(found[name], always=True) for name in NAMES]
    cases = [replace(c, calls=3) for c in made if c]
    lost = replace(cases[0], name="lost", calls=6, lose=3)
    by_price = replace(cases[0], name="by price", always=False)
    rows = run(tmp_path, [*cases, lost, by_price], mode)
    assert [r["wrong"] for r in rows] == [[]] * len(rows)
    for row in rows[: len(cases)]:
        assert row["counters"]["success"] + row["counters"]["fallback"]["check"] == 3
    assert rows[-2]["counters"]["fallback"]["device-lost"] == 1
    assert rows[-2]["counters"]["success"] >= 1
    assert rows[-1]["counters"]["success"] == 0
    assert "stays" in rows[-1]["status"][0]["text"]


@pytest.mark.timeout(240)
def test_the_guard_finds_kernels_of_other_loops(tmp_path: Path) -> None:
    original = originals(read(PLANTED.read_bytes()))[9]
    nests = nests_of(read(original.data), {})
    _, plan = offloaded(read(original.data), nests)
    made: list[Mutant] = list(mutants(original, 12, seed=3))
    cases, swapped = [], {}
    for i, mutant in enumerate(made):
        module = read(mutant.data)
        cases.append(Case(str(i), mutant.data, ENTRY, (), original.regions, 3, always=True))
        data = rewrite(module, [(v.function, found) for v, found, _ in nests])
        swapped[str(i)] = data, plan
    rows = run(tmp_path, cases, "jspi", swapped=swapped)
    assert [r["wrong"] for r in rows] == [[]] * len(rows)
    assert any("numerical-divergence" in r["counters"]["fallback"] for r in rows)
