"""Recorded kernels give the bytes that they gave: the list of those that do not, else.

``make replay-bless`` accepts a change of the compiler; COMPILER_VERSION tells
databases about it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from replay_groups import GROUPS

RECORDS = Path(__file__).parents[1] / "replay"


def recorded(group: str) -> dict[str, str]:
    """Digest of every kernel of a group, by name."""
    found: dict[str, str] = {}
    for name, data in GROUPS[group]():
        assert name not in found, name
        found[name] = hashlib.sha256(data).hexdigest()
    assert found
    return found


def check(group: str, bless: bool) -> None:
    """Compare a group with its record, or write that."""
    now, record = recorded(group), RECORDS / f"{group}.json"
    if bless:
        record.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8", newline="\n")
    before = json.loads(record.read_text(encoding="utf-8"))
    differing = sorted(k for k in now.keys() | before.keys() if now.get(k) != before.get(k))
    assert not differing, "bytes changed (make replay-bless accepts): " + "; ".join(differing)
