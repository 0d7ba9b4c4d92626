"""The campaign against the Studio: `make attack`, which writes `benchmarks/reliability.json`.

Every campaign has a seed and its share of the time. A run goes on where the runs that the file
knows have ended, with a seed of its own, until together they are of the bar's size; `--anew`
forgets them. What is not finished is said.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = ("", "attack", "bundle", "compiler", "database", "end2end", "helpers")
sys.path += [str(_ROOT / "tests" / name) for name in _FOLDERS]

from bars import ATTACKS, BARS, PROGRAMS, Attack, Bar  # noqa: E402
from outcomes import Campaign, Outcome  # noqa: E402
from results import Results, attack_row, now, run_row  # noqa: E402

_ITSELF = "make attack"
_PROGRAM = "python tests/attack/attack.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="one that no run had by default")
    parser.add_argument("--minutes", type=float, default=90.0, help="of all campaigns together")
    parser.add_argument(
        "--only", nargs="*", default=list(ATTACKS), choices=list(ATTACKS | PROGRAMS)
    )
    parser.add_argument("--bars", nargs="*", type=int, help="run what measures these, no campaign")
    parser.add_argument("--no-tests", action="store_true", help="leave out bars that tests measure")
    parser.add_argument("--anew", action="store_true", help="earlier runs do not count")
    parser.add_argument("--folder", type=Path, help="keeps what was found")
    parser.add_argument("--out", type=Path, help="the JSON file, whose other rows stay")
    options = parser.parse_args()
    results = Results(options.out)
    if options.bars is not None:
        rows = [row(bar, {}, measure=True) for bar in BARS if bar.number in options.bars]
    else:
        attacks = campaign(options, results)
        rows = [row(bar, attacks, measure=bool(bar.tests) and not options.no_tests)
                for bar in BARS]  # fmt: skip
    for each in rows:
        if each is not None:
            results.add_bar(each)
    sys.exit(0 if all(r["holds"] is not False for r in rows if r is not None) else 1)


def campaign(options: argparse.Namespace, results: Results) -> dict[str, dict[str, Any]]:
    """Run the attacks that are asked for; the row of each with its earlier runs."""
    folder = options.folder or Path(tempfile.mkdtemp(prefix="attack-"))
    rows = {}
    share = sum((ATTACKS | PROGRAMS)[name].share for name in options.only)
    for name in options.only:
        what = (ATTACKS | PROGRAMS)[name]
        runs = [] if options.anew or not what.adds else results.runs(name)
        start = sum(run["done"] for run in runs)
        if start < what.full:
            seed = options.seed or 1 + max((run["seed"] for run in runs), default=0)
            command = f"{_ITSELF} MINUTES={options.minutes:g} SEED={seed}"
            if name in PROGRAMS:
                command = f'{_PROGRAM} --only "{name}" --minutes {options.minutes:g} --seed {seed}'
            seconds = options.minutes * 60 * what.share / share
            outcome = attack(what, name, folder, seed, seconds, start=start)
            runs = [*runs, run_row(outcome, seed, start, command)]
        rows[name] = attack_row(name, what.full, what.unit, runs, what.judge)
        results.add_run(rows[name])
        verdict = "holds" if rows[name]["holds"] else "FAILS"
        print(f"{verdict}  {name}: {rows[name]['figure']}", flush=True)
    return rows


def attack(
    what: Attack, name: str, folder: Path, seed: int, seconds: float, short: bool = False,
    start: int = 0,
) -> Outcome:  # fmt: skip
    """Run a campaign of its full size or the short one, from attack ``start`` on."""
    place = folder / name.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    size = what.short if short else what.full
    rng = random.Random(f"{seed} {name}")
    return what.make(Campaign(rng, size, seconds, place, what.unit, start))


def row(bar: Bar, attacks: Mapping[str, Mapping[str, Any]], measure: bool) -> dict[str, Any] | None:
    """A bar as JSON; None where this run says nothing of it.

    ``holds`` is null where nothing can be said, as of a bar whose tests were all left out.
    """
    command = ""
    if bar.attack:
        if bar.attack not in attacks:
            return None
        of = attacks[bar.attack]
        holds, figure, command = of["holds"] and of["complete"], of["figure"], of["command"]
    elif bar.tests:
        if not measure:
            return None
        command = f"pytest {bar.tests}"
        holds, figure = run(["-m", "pytest", "-q", *bar.tests.split()])
    else:
        holds, figure = False, bar.missing
    print(f"{bar.number:2} {holds} {figure}", flush=True)
    return {"bar": bar.number, "text": bar.text, "holds": holds, "figure": figure,
            "command": command, "date": now()}  # fmt: skip


def run(argv: list[str]) -> tuple[bool | None, str]:
    """Whether a program of Python ended with 0, and its last line.

    A program with the exit code 77 had nothing to measure with, and says why.
    """
    done = subprocess.run(
        [sys.executable, *argv], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    lines = (done.stdout.strip() or done.stderr.strip() or "it said nothing").splitlines()
    print("\n".join(lines[-12:-1]), flush=True)
    return {0: True, 77: None}.get(done.returncode, False), lines[-1]


if __name__ == "__main__":
    main()
