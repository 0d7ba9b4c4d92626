"""The campaign against the Studio: `make attack`, which writes `benchmarks/reliability.json`.

Every campaign has a seed and its share of the time; what it could not finish is said.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(_ROOT / "tests" / name)
             for name in ("", "attack", "bundle", "compiler", "database", "helpers")]  # fmt: skip

from bars import ATTACKS, BARS, Attack, Bar  # noqa: E402
from outcomes import Campaign, Outcome  # noqa: E402

_ITSELF = "make attack"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=90.0, help="of all campaigns together")
    parser.add_argument("--only", nargs="*", default=list(ATTACKS), choices=list(ATTACKS))
    parser.add_argument("--no-tests", action="store_true", help="leave out bars that tests measure")
    parser.add_argument("--folder", type=Path, help="keeps what was found")
    parser.add_argument("--out", type=Path, help="the JSON file, whose other rows stay")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="attack-"))
    outcomes = {}
    for name in options.only:
        outcome = attack(ATTACKS[name], name, folder, options.seed, options.minutes * 60)
        outcomes[name] = outcome
        print(f"{'holds' if outcome.holds else 'FAILS'}  {name}: {outcome.figure}", flush=True)
    command = f"{_ITSELF} MINUTES={options.minutes:g} SEED={options.seed}"
    rows = [row(bar, outcomes, command, not options.no_tests) for bar in BARS]
    if options.out is not None:
        write(options.out, [r for r in rows if r is not None], outcomes, command)
    sys.exit(0 if all(o.holds for o in outcomes.values()) else 1)


def attack(
    what: Attack, name: str, folder: Path, seed: int, seconds: float, short: bool = False
) -> Outcome:
    """Run a campaign, of its full size or the short one."""
    place = folder / name.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    size = what.short if short else what.full
    rng = random.Random(f"{seed} {name}")
    return what.make(Campaign(rng, size, seconds * what.share, place, what.unit))


def row(bar: Bar, outcomes: dict[str, Outcome], command: str, tests: bool) -> dict[str, Any] | None:
    """A bar as JSON; None where this run says nothing of it. ``holds`` is null when unknown."""
    holds: bool | None = None
    figure = bar.elsewhere
    if bar.attack:
        if bar.attack not in outcomes:
            return None
        outcome = outcomes[bar.attack]
        holds, figure = outcome.holds and outcome.complete, outcome.figure
    elif bar.tests:
        if not tests:
            return None
        command = f"pytest {bar.tests}"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *bar.tests.split()],
            cwd=_ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        holds, figure = done.returncode == 0, done.stdout.strip().splitlines()[-1]
    elif bar.elsewhere.startswith(("not there", "not met", "partly")):
        holds = False
    print(f"{bar.number:2} {holds} {figure}", flush=True)
    return {"bar": bar.number, "text": bar.text, "holds": holds, "figure": figure,
            "command": command, "date": _now()}  # fmt: skip


def write(
    out: Path, rows: list[dict[str, Any]], outcomes: dict[str, Outcome], command: str
) -> None:
    """Replace the rows of this run in the file; those that it says nothing of stay."""
    known = json.loads(out.read_text()) if out.exists() else {"bars": [], "attacks": []}
    bars = {r["bar"]: r for r in (*known["bars"], *rows)}
    attacks = {r["attack"]: r for r in known["attacks"]}
    for name, outcome in outcomes.items():
        attacks[name] = {"attack": name, "holds": outcome.holds, "complete": outcome.complete,
                         "figure": outcome.figure, "command": command, "date": _now()}  # fmt: skip
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    document = {"machine": machine, "bars": [bars[n] for n in sorted(bars)],
                "attacks": list(attacks.values())}  # fmt: skip
    out.write_text(json.dumps(document, indent=1) + "\n")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="minutes")


if __name__ == "__main__":
    main()
