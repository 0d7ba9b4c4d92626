"""Every operator against ONNX Runtime, and the documentation's table against that."""

from __future__ import annotations

from pathlib import Path

import pytest
from operator_cases import Case, all_cases
from operator_table import RUNS, committed, status, statuses, table, words_of
from replay_groups import OF_OPERATORS
from replay_records import check

CASES = all_cases()


def test_names_are_unique() -> None:
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operator(case: Case, tmp_path: Path) -> None:
    found = status(case, tmp_path)
    assert found == RUNS or f"{case.op} of node 'node'" in found
    assert found == statuses(committed()).get((case.op, words_of(case))), "run `make operators`"


@pytest.mark.parametrize("group", OF_OPERATORS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Renaming name")
def test_same_bytes_as_recorded(group: str, request: pytest.FixtureRequest) -> None:
    check(group, request.config.getoption("bless"))


def test_the_table_has_the_cases_and_no_others() -> None:
    told = statuses(committed())
    results = ((case, told.get((case.op, words_of(case)), "")) for case in CASES)
    assert table(results) == committed(), "run `make operators`"
