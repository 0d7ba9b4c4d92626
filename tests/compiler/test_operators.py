"""Every operator against ONNX Runtime, and the documentation's table against that."""

from __future__ import annotations

from pathlib import Path

import pytest
from operator_cases import Case, all_cases
from operator_table import RUNS, committed, status, table

CASES = all_cases()
_found: dict[str, str] = {}


def test_names_are_unique() -> None:
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operator(case: Case, tmp_path: Path) -> None:
    found = status(case, tmp_path)
    _found[case.name] = found
    assert found == RUNS or f"{case.op} of node 'node'" in found


def test_table_is_up_to_date() -> None:
    if len(_found) < len(CASES):
        pytest.skip("needs all cases of this file to run before it")
    assert table((c, _found[c.name]) for c in CASES) == committed(), "run `make operators`"
