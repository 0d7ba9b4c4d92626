"""The campaign of `make attack`, a short form of each part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attack import attack, row, write
from bars import ATTACKS, BARS
from outcomes import Outcome


@pytest.mark.parametrize("name", ATTACKS)
def test_a_short_campaign_holds(name: str, tmp_path: Path) -> None:
    outcome = attack(ATTACKS[name], name, tmp_path, seed=19, seconds=600, short=True)
    assert outcome.holds, outcome.figure


def test_there_are_25_bars_and_each_has_a_source() -> None:
    assert [bar.number for bar in BARS] == list(range(1, 26))
    assert all(bool(b.attack) + bool(b.tests) + bool(b.elsewhere) == 1 for b in BARS)
    assert {b.attack for b in BARS} - {""} <= ATTACKS.keys()
    root = Path(__file__).resolve().parents[2]
    assert all((root / path).is_file() for b in BARS for path in b.tests.split())


def test_the_file_keeps_what_a_run_says_nothing_of(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    full = {"models": Outcome(True, "0 died", True), "kills": Outcome(True, "3 kills", False)}
    for names in (("models",), ("kills",)):
        outcomes = {name: full[name] for name in names}
        rows = [row(bar, outcomes, "make attack", tests=False) for bar in BARS]
        write(out, [r for r in rows if r is not None], outcomes, "make attack")
    document = json.loads(out.read_text())
    bars = {r["bar"]: r for r in document["bars"]}
    assert bars[1]["holds"] is True
    assert bars[12]["holds"] is False  # nothing failed, but it was too short for the bar
    assert bars[22]["holds"] is None
    assert [a["attack"] for a in document["attacks"]] == ["models", "kills"]
