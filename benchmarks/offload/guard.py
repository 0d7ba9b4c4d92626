"""The guard of offloaded loops against mutants, in a browser: one JSON line of what became of them.

    python guard.py [--no-sandbox] [--kernels 10] [--loops 1] [--without-images]

Fails where a wrong kernel, plan or loop ever left other memory than the original loop. What devices
that go wrong did is told: those that change after the check are promised no more than the checks.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from offload_campaign import (
    LATE_DEVICE,
    Mutant,
    campaign,
    run_campaign,
    tally,
)

from nnjit_studio.foreign_wasm.offload.job import Where

PLANTED = Path(__file__).resolve().parents[2] / "tests/offload/planted"


def without_images(mutant: Mutant) -> Mutant:
    """The mutant for a guard that knows the page's memory alone."""
    data, plan = mutant.swapped
    known = json.loads(plan)
    nests = [{**nest, "alone": None} for nest in known["nests"]]
    return replace(mutant, swapped=(data, json.dumps({**known, "nests": nests})))


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    late = [r for r in rows if r["of"] == LATE_DEVICE and r["wrong_calls"]]
    calls = sorted(r["wrong_calls"] for r in late)
    wrong = [r for r in rows if r["outcome"] == "wrong" and "device" not in r["of"]]
    return {
        "date": date.today().isoformat(),
        "mutants": sum(r["of"] != LATE_DEVICE and r["outcome"] != "equivalent" for r in rows),
        "wrong": len(wrong),
        "outcomes": tally(rows),
        "kinds": dict(sorted(Counter(f"{r['of']}: {r['kind']}" for r in rows).items())),
        "reasons": dict(Counter(r["reason"] for r in rows if r["caught"])),
        "late": {
            "devices": sum(r["of"] == LATE_DEVICE for r in rows),
            "wrong_calls": calls,
            "median": median(calls) if calls else 0,
            "never_caught": sum(not r["caught"] for r in late),
        },
        "rows": [
            {k: r[k] for k in ("of", "kind", "loop", "what", "outcome", "wrong", "text")}
            for r in rows
            if r["outcome"] != "first check" and r["of"] != LATE_DEVICE
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=10, help="wrong kernels of each loop")
    parser.add_argument("--loops", type=int, default=1, help="changed loops of each loop")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-images", action="store_true")
    parser.add_argument("--no-sandbox", action="store_true")
    given = parser.parse_args()
    modules = [path.read_bytes() for path in sorted(PLANTED.glob("*.wasm"))]
    found = list(campaign(modules, given.kernels, given.loops, given.seed))
    if given.without_images:
        found = [without_images(mutant) for mutant in found]
    with tempfile.TemporaryDirectory(prefix="nnjit-guard-") as folder:
        where = Where(Path(folder), no_sandbox=given.no_sandbox, gpu="software")
        rows = run_campaign(found, where, lambda line: print(line, file=sys.stderr))
    told = {"images": not given.without_images, "seed": given.seed, **summary(rows)}
    print(json.dumps(told))
    return int(told["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
