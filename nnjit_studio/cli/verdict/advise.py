"""The verb ``advise``: what would make a model faster, smaller or lighter, each measured."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.advice.budgets import KEPT, Budgets, Kept, check
from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.advice.records import Advice, Row, stopped
from nnjit_studio.advice.store import accept_error, accepted_error
from nnjit_studio.advice.text import table
from nnjit_studio.cli.bench.options import ADAPTER
from nnjit_studio.cli.common import INPUTS, JSON, MODEL, answer, note
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import Running, workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import OUTPUT, POSITIVE, group, option, same, verb
from nnjit_studio.cli.verdict.compare import page_visits
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import BugError, UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.workbench import jobs


@dataclass(frozen=True)
class AskedFor:
    """Which rows are measured, for how long, what they may cost, and which one is applied."""

    seconds: float = option(3.0, "Seconds of rounds of each row, at most.", type=POSITIVE)
    only: tuple[str, ...] = option(
        None,
        "Measure this row alone; `untouched` for none, the model as it is.",
        multiple=True,
        metavar="ROW",
    )
    max_error: float | None = option(
        None,
        "Largest error of an output, as a share of its largest value: of rows, and a budget of the "
        "model. Remembered for this file; 0.01 at first.",
        type=POSITIVE,
    )
    max_ms: float | None = option(
        None, "Budget of one inference in ms; exit code 1 when it is broken.", type=POSITIVE
    )
    max_mb: float | None = option(
        None, "Budget of the download in MB; exit code 1 when it is broken.", type=POSITIVE
    )
    apply: str = option("", "Measure this row and apply it, if the guard lets it.", metavar="ROW")
    output: Path | None = option(
        None, "Of --apply: where the row's file goes.", flag="-o --output", type=OUTPUT
    )
    force: bool = option(False, "Apply it although the guard refuses it.")
    inputs: Feeds | None = same(INPUTS)
    gpu: str = same(ADAPTER)

    def options(self, accepted: float) -> AdviceOptions:
        only = (self.apply,) if self.apply else tuple(self.only)
        return AdviceOptions(self.seconds, accepted, only)

    def budgets(self) -> Budgets:
        return Budgets(self.max_ms, self.max_mb, self.max_error)


@verb()
def advise(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    asked: AskedFor = group(AskedFor),
    target: TargetOptions = target_options("target", "threads", "no_sandbox", "database"),
    as_json: bool = JSON,
) -> None:
    """Measure what would make MODEL faster, smaller or lighter: one ranked list.

    Each row runs in turns with the untouched model in one page, and its outputs are compared
    with float32 on the inputs of --inputs, else on made-up ones. Budgets are of the untouched
    model, or with --apply of the row.
    """
    if (asked.output or asked.force) and not asked.apply:
        raise UserError("-o and --force belong to --apply.", "Name a row with --apply.")
    if target.embedded and asked.gpu != "hardware":
        raise UserError("--gpu is of a browser.", "Give one with --target, such as chromium.")
    with workbench(target, importing, opens=KernelDatabase.open_for_reading) as opened:

        def work() -> tuple[Advice, Row | None, Path | None]:
            opened.bench.open_model(model, note, asked.inputs)
            advice = _measured(opened, target, asked, model)
            row = advice.row(asked.apply)
            if row is None:
                return advice, None, None
            return (
                advice,
                row,
                opened.bench.run(jobs.apply_row, row, asked.output, asked.force, note),
            )

        advice, row, file = opened.run(work)
    measured = row.measured if row else advice.base
    assert measured is not None
    kept = check(measured, asked.budgets())
    answer(as_json, _document(advice, row, file, kept), _text(advice, row, file, kept))
    if any(each.state != KEPT for each in kept):
        sys.exit(1)


def _measured(opened: Running, target: TargetOptions, asked: AskedFor, model: Path) -> Advice:
    last, phase = None, ""
    folder = opened.bench.database.path.parent
    if asked.max_error is not None:
        accept_error(folder, model, asked.max_error)
    options = asked.options(accepted_error(folder, model))
    try:
        for last in opened.bench.run(jobs.advise, page_visits(target, asked.gpu), options, note):
            if last.phase != phase:
                phase = last.phase
                note(phase or "done")
    except UserError:
        if not opened.bench.page.cancelled or last is None or last.base is None or asked.apply:
            raise
        return stopped(last)
    if last is None:
        raise BugError("Nothing was measured.")
    return last


def _document(
    advice: Advice, row: Row | None, file: Path | None, kept: tuple[Kept, ...]
) -> dict[str, Any]:
    applied = {"row": row.name, "file": str(file) if file else "", **_how(row)} if row else None
    budgets = [each.to_json() for each in kept]
    return {**advice.to_json(), "applied": applied, "budgets": budgets}


def _how(row: Row) -> dict[str, Any]:
    told = row.apply.to_json()
    return {"options": told["options"], "headers": told["headers"], "asks": row.asks}


def _text(advice: Advice, row: Row | None, file: Path | None, kept: tuple[Kept, ...]) -> str:
    lines = [table(advice)]
    if row is not None:
        options = shlex.join(row.apply.options)
        lines += ["", f"wrote {file}" if file else f"Add to the command: {options}"]
    if kept:
        lines += ["", *(each.why or f"{each.name} {each.limit:g} is kept." for each in kept)]
    return "\n".join(lines)
