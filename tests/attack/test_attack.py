"""The campaign of `make attack`, a short form of each part."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from attack import attack, row, run
from bars import ATTACKS, BARS, PROGRAMS
from outcomes import Campaign, Outcome
from results import Results, attack_row, run_row


@pytest.mark.parametrize("name", ATTACKS)
def test_a_short_campaign_holds(name: str, tmp_path: Path) -> None:
    outcome = attack(ATTACKS[name], name, tmp_path, seed=19, seconds=600, short=True)
    assert outcome.holds, outcome.figure


def test_there_are_25_bars_and_each_has_a_source() -> None:
    assert [bar.number for bar in BARS] == list(range(1, 26))
    assert all(sum(map(bool, (b.attack, b.tests, b.missing))) == 1 for b in BARS)
    assert {b.attack for b in BARS} - {""} <= (ATTACKS | PROGRAMS).keys()
    root = Path(__file__).resolve().parents[2]
    assert all((root / path).is_file() for b in BARS for path in b.tests.split())


def test_runs_add_up_to_the_bar_and_the_file_keeps_the_rest(tmp_path: Path) -> None:
    results = Results(tmp_path / "r.json")
    results.add_bar({"bar": 22, "holds": None})
    halves = [Outcome(True, "half", False, 500, {"lost": 0, "raw": 1}, {"MiB": n}) for n in (7, 3)]
    for part, done in enumerate(halves):
        runs = [*results.runs("kills"), run_row(done, part, 500 * part, "make attack")]
        row_of_attack = attack_row("kills", 1_000, "kills", runs)
        results.add_run(row_of_attack)
        of_bar = row(next(b for b in BARS if b.attack == "kills"), {"kills": row_of_attack}, False)
        assert of_bar is not None
        assert of_bar["holds"] is bool(part)  # the first half is too short for the bar
        results.add_bar(of_bar)
    document = json.loads((tmp_path / "r.json").read_text())
    assert [bar["bar"] for bar in document["bars"]] == [12, 22]
    assert document["hold"] == 1
    (kills,) = document["attacks"]
    assert kills["figure"] == "1,000 of 1,000 kills in 2 runs: 0 lost, 2 raw, 7 MiB"
    bad = Outcome(False, "one was lost", True, 1, {"lost": 1})
    assert not attack_row("kills", 1, "kills", [*runs, run_row(bad, 3, 1_000, "")])["holds"]


@pytest.mark.parametrize(("false", "holds"), [((5, 5), True), ((5, 6), False)])
def test_a_share_is_judged_over_all_runs(false: tuple[int, int], holds: bool) -> None:
    what = PROGRAMS["same kernels"]
    counts = [{"false swaps": n, "undecided": 0} for n in false]
    parts = [Outcome(False, "", False, done, c) for c, done in zip(counts, (800, 200), strict=True)]
    runs = [run_row(part, 1, 0, "") for part in parts]
    assert attack_row("same kernels", what.full, what.unit, runs, what.judge)["holds"] is holds


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    numbers = [list(Campaign(random.Random(1), 5, 60, tmp_path, start=n).rounds()) for n in (0, 3)]
    assert numbers == [[1, 2, 3, 4, 5], [4, 5]]


@pytest.mark.parametrize(
    ("code", "holds"), [("0", True), ("1", False), ("77", None), ("-9", False)]
)
def test_a_program_holds_by_its_exit_code(code: str, holds: bool | None) -> None:
    end = f"import os; print('a'); print('b', flush=True); os._exit({code} & 255)"
    assert run(["-c", end]) == (holds, "b")
