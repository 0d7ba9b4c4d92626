"""Recorded kernels; those of operators and models are looked at where these are run."""

from __future__ import annotations

import pytest
from replay_groups import ELSEWHERE, GROUPS
from replay_records import RECORDS, check


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Renaming name")
@pytest.mark.parametrize("group", [group for group in GROUPS if group not in ELSEWHERE])
def test_same_bytes_as_recorded(group: str, request: pytest.FixtureRequest) -> None:
    check(group, request.config.getoption("bless"))


def test_every_record_has_its_group() -> None:
    assert {record.stem for record in RECORDS.iterdir()} == set(GROUPS)
