"""A sample of ``make operators-wgsl`` and of the fuzzer, on a software adapter."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_wgsl import fuzz
from operator_cases import all_cases
from operators_wgsl import RUNS, status

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_thirtieth_operator_case(tmp_path: Path) -> None:
    found = {case.name: status(case, tmp_path) for case in all_cases()[::30]}
    assert len(found) > 10
    for name, sentence in found.items():
        assert sentence == RUNS or "of node 'node'" in sentence, name


def test_random_programs_on_hostile_numbers() -> None:
    counts, wrong = fuzz(60, 5)
    assert wrong == []
    assert counts["unknown"] < 0.7 * counts["elements"]
