"""How well isolation finds what V8 itself says: ``make wasm-isolation FILE=some.wasm``.

Functions over a millisecond, spread over the whole range, are compiled alone and
compared with V8's figures of the whole file, both without inlining.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from nnjit_studio.foreign_wasm.inspection.cost.in_browser import find_engine
from nnjit_studio.foreign_wasm.inspection.cost.measure import isolated, traced
from nnjit_studio.foreign_wasm.inspection.survey import survey_file

LEAST_MS = 1.0
CLOSE = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--engine", default="chromium", help="chromium or node")
    parser.add_argument("--functions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-sandbox", action="store_true")
    given = parser.parse_args()

    def note(line: str) -> None:
        print(line, file=sys.stderr)

    engine = find_engine(given.engine, given.no_sandbox)
    survey = survey_file(given.file)
    own = traced(engine, survey, note, rounds=3, inlining=False).tiers[-1].functions
    over = sorted((i for i in own if own[i].ms > LEAST_MS), key=lambda i: -own[i].ms)
    chosen = over[:: max(1, len(over) // given.functions)]
    alone = isolated(engine, survey, chosen, note, given.rounds, whole=False).tiers[-1].functions
    rows = [(i, own[i].ms, alone[i].ms, alone[i].ms / own[i].ms) for i in chosen if i in alone]
    for index, theirs, ours, ratio in rows:
        print(f"{index:>7}  V8 {theirs:9.2f} ms  isolated {ours:9.2f} ms  {ratio:.2f}")
    summary = {
        "file": given.file.name,
        "engine": engine.version(),
        "over_1_ms": len(over),
        "compared": len(rows),
        "within_20_percent": sum(abs(ratio - 1) <= CLOSE for *_, ratio in rows),
        "median_ratio": statistics.median(ratio for *_, ratio in rows),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
