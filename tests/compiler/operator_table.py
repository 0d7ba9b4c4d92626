"""The table of docs/operators.md, from running every case: ``make operators`` writes it."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from imported_once import imported_case
from operator_cases import Case, all_cases, close
from run_plan import run_kernels

from nnjit_studio.records import TIERS

TABLE = Path(__file__).parents[2] / "docs" / "operators.md"
_BEGIN, _END = "<!-- table -->\n", "<!-- end of table -->\n"
RUNS = "runs"
_REFUSED = "refused: "


def status(case: Case, folder: Path) -> str:
    """``runs``, or the sentence of the refusal.

    Raises
    ------
    AssertionError
        When a kernel of either tier gives another result than the reference.
    """
    found, expected = imported_case(case)
    if found.built is None:
        return found.refusal
    weights = folder / "weights.bin"
    weights.write_bytes(found.weights)
    for tier in TIERS:
        got = run_kernels(found.built, weights, case.feeds, found.kernels(tier))
        for name, array in expected.items():
            assert got[name].dtype == array.dtype
            assert got[name].shape == array.shape
            close(got[name], array)
    return RUNS


def table(results: Iterable[tuple[Case, str]]) -> str:
    """Markdown: a row for each operator and status, its dtypes and variants in one cell."""
    rows: dict[tuple[str, str], list[str]] = {}
    for case, found in results:
        rows.setdefault((case.op, found), []).append(words_of(case))
    lines = ["| operator | cases | status |", "|---|---|---|"]
    for (op, found), cases in sorted(rows.items()):
        said = found if found == RUNS else _REFUSED + found
        lines.append(f"| {op} | {', '.join(cases)} | {said} |")
    return "\n".join(lines) + "\n"


def words_of(case: Case) -> str:
    """What a cell of the table calls a case."""
    return " ".join(filter(None, (case.dtype, case.variant)))


def statuses(text: str) -> dict[tuple[str, str], str]:
    """The counterpart of :func:`table`: the status of each operator's case, by its words."""
    found = {}
    for line in text.splitlines()[2:]:
        op, cases, said = line.removeprefix("| ").removesuffix(" |").split(" | ", 2)
        for words in cases.split(", "):
            found[op, words] = said.removeprefix(_REFUSED)
    return found


def committed() -> str:
    """The table as it stands in the documentation."""
    text = TABLE.read_text(encoding="utf-8")
    return text.split(_BEGIN)[1].split(_END)[0]


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        results = [(case, status(case, Path(folder))) for case in all_cases()]
    before, after = TABLE.read_text(encoding="utf-8").split(_BEGIN)
    text = before + _BEGIN + table(results) + _END + after.split(_END)[1]
    TABLE.write_text(text, encoding="utf-8", newline="\n")
    running = sum(found == RUNS for _, found in results)
    sys.stdout.write(f"{running} of {len(results)} cases run; {TABLE.name} is written.\n")


if __name__ == "__main__":
    main()
