"""The verb ``advise``: what would make a model faster, smaller or lighter, each measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.advice.records import MAX_ERROR, Advice
from nnjit_studio.advice.text import table
from nnjit_studio.cli.common import INPUTS, JSON, MODEL, answer, load_inputs, note
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import POSITIVE, group, option, same, verb
from nnjit_studio.cli.verdict.compare import page_visits
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import BugError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.workbench import jobs


@dataclass(frozen=True)
class AskedFor:
    """Which rows are measured, for how long, and how exact they have to be."""

    seconds: float = option(3.0, "Seconds of rounds of each row, at most.", type=POSITIVE)
    max_error: float = option(
        MAX_ERROR,
        "Largest error of an output, as a share of its largest value, that a row may have.",
        type=POSITIVE,
    )
    only: tuple[str, ...] = option(None, "Only this row.", multiple=True, metavar="ROW")
    inputs: Path | None = same(INPUTS)

    def options(self) -> AdviceOptions:
        return AdviceOptions(self.seconds, self.max_error, tuple(self.only))


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
    with float32 on the inputs of --inputs, else on made-up ones.
    """
    feeds = load_inputs(asked.inputs)
    with workbench(target, importing, opens=KernelDatabase.open_for_reading) as opened:

        def work() -> Advice:
            opened.bench.open_model(model, note, feeds)
            last, phase = None, ""
            for last in opened.bench.run(jobs.advise, page_visits(target), asked.options()):
                if last.phase != phase:
                    phase = last.phase
                    note(phase or "done")
            if last is None:
                raise BugError("Nothing was measured.")
            return last

        found = opened.run(work)
    answer(as_json, found.to_json(), table(found))
