"""The whole way in a browser, on a software adapter: swap, check, wrong kernels, a lost device."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from offload_campaign import LATE_DEVICE, campaign, run_campaign

from nnjit_studio.foreign_wasm.offload.cases import Case
from nnjit_studio.foreign_wasm.offload.detect import verdicts
from nnjit_studio.foreign_wasm.offload.job import Where, case_of, run_cases
from nnjit_studio.wasm_file.module import read

PLANTED = Path(__file__).parent / "planted" / "planted-o3-simd.wasm"
NAMES = ("elementwise_rows", "elementwise_in_place", "dot_start", "gemv_bias_relu")

NO_GPU = {"no-device", "device-lost"}
"""A browser on a busy machine may give no adapter, or lose it: the loop runs as it is, rightly."""


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
    for _ in range(3):
        rows = run(tmp_path, [*cases, lost, by_price], mode)
        assert [r["wrong"] for r in rows] == [[]] * len(rows)
        if all(NO_GPU.isdisjoint(row["counters"]["fallback"]) for row in rows[: len(cases)]):
            break
    for row in rows[: len(cases)]:
        counters = row["counters"]
        assert "check" in counters["fallback"], row
        assert counters["success"] + counters["fallback"]["check"] == 3, row
    assert rows[-2]["counters"]["fallback"]["device-lost"] == 1
    assert rows[-2]["counters"]["success"] >= 1
    assert rows[-1]["counters"]["success"] == 0
    assert "stays" in rows[-1]["status"][0]["text"]


@pytest.mark.timeout(300)
def test_no_mutant_leaves_other_memory_than_the_loop(tmp_path: Path) -> None:
    """A small part of ``make offload-mutants``."""
    every = campaign([PLANTED.read_bytes()], kernels=2, loops=1, seed=3)
    found = [mutant for mutant in islice(every, 35) if mutant.of != LATE_DEVICE]
    where = Where(tmp_path, no_sandbox=True, gpu="software")
    rows = run_campaign(found, where, lambda _: None)
    assert [row for row in rows if row["outcome"] == "wrong"] == []
    caught = {row["of"] for row in rows if row["outcome"] == "first check"}
    assert caught == {"kernel", "plan", "loop", "device"}
    assert any(row["text"].startswith("on made-up memory") for row in rows)
