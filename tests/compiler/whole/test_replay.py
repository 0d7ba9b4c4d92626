"""Recorded kernels give the bytes that they gave: the list of those that do not, else.

``make replay-bless`` accepts a change of the compiler; COMPILER_VERSION tells
databases about it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from replay_groups import GROUPS

RECORDS = Path(__file__).parents[2] / "replay"


def recorded(group: str) -> dict[str, str]:
    """Digest of every kernel of a group, by name."""
    found: dict[str, str] = {}
    for name, data in GROUPS[group]():
        assert name not in found, name
        found[name] = hashlib.sha256(data).hexdigest()
    assert found
    return found


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Renaming name")
@pytest.mark.parametrize("group", GROUPS)
def test_same_bytes_as_recorded(group: str, request: pytest.FixtureRequest) -> None:
    now, record = recorded(group), RECORDS / f"{group}.json"
    if request.config.getoption("bless"):
        record.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8", newline="\n")
    before = json.loads(record.read_text(encoding="utf-8"))
    differing = sorted(k for k in now.keys() | before.keys() if now.get(k) != before.get(k))
    assert not differing, "bytes changed (make replay-bless accepts): " + "; ".join(differing)


def test_every_record_has_its_group() -> None:
    assert {record.stem for record in RECORDS.iterdir()} == set(GROUPS)
