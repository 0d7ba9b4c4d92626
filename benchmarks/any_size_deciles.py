"""Results of `any_size.py`, of one run or of several that shared its lengths, by deciles of length.

python benchmarks/any_size_deciles.py out/any-size/*/wasm/lengths.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from any_size import told

from nnjit_studio.bench.report import Report, Table, append
from nnjit_studio.bench.statistics import geomean

DECILES = 10
HEAD = ("lengths", "count", "any / one: median", "95 %", "largest", "ORT / any", "least")
_Rows = Sequence[Mapping[str, Any]]


def main(options: argparse.Namespace) -> int:
    documents = [json.loads(path.read_text()) for path in options.results]
    rows = sorted((r for d in documents for r in d["rows"]), key=lambda r: int(r["length"]))
    if not rows:
        sys.exit("No length was measured.")
    whole = _told(rows, "all")
    cuts = [len(rows) * i // DECILES for i in range(DECILES + 1)]
    parts = (rows[begin:end] for begin, end in pairwise(cuts))
    table = Table(HEAD, (*(_told(part, _span(part)) for part in parts if part), whole))
    first = [row["first_over_steady"] for row in rows]
    facts = (
        f"{len(rows)} lengths of {len(documents)} runs. First run of a length over a steady one: "
        f"median {told(first)}. Compiled in runs: {sum(d['compiled_in_runs'] for d in documents)}. "
        f"Largest difference of an output: {max(row['difference'] for row in rows):.1e}."
    )
    about = "benchmarks/any_size_deciles.py; contenders in turns in one page, medians."
    report = Report(documents[0], "MiniLM by deciles of length", about, (table, facts))
    print(report.text())
    if options.markdown:
        append(options.markdown, report.markdown())
    return 0


def _span(rows: _Rows) -> str:
    return f"{rows[0]['length']} to {rows[-1]['length']}"


def _told(rows: _Rows, name: str) -> tuple[str, ...]:
    ratios = [row["over_fixed"] for row in rows if row["over_fixed"]]
    against = [row["ort_over_any"] for row in rows]
    alone = (f"{statistics.median(ratios):.3f}", f"{_at(ratios, 95):.3f}", f"{max(ratios):.3f}")
    return (name, str(len(rows)), *(alone if ratios else ("", "", "")),
            f"{geomean(against):.2f}", f"{min(against):.2f}")  # fmt: skip


def _at(ratios: Sequence[float], percent: int) -> float:
    """What so many of a hundred do not exceed."""
    return sorted(ratios)[-(-percent * len(ratios) // 100) - 1]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+", help="lengths.json of each run")
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(arguments()))
