"""The verb ``inspect``: a Wasm file's functions, what they cost to compile, and what they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nnjit_studio.cli.common import JSON, answer, note
from nnjit_studio.cli.foreign_wasm.compile_cost import CompileOptions, compile_cost
from nnjit_studio.cli.foreign_wasm.page import PageOptions, show_page
from nnjit_studio.cli.import_options import SHAPES
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import FILE, argument, group, option, verb
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.inspection.comparison import Comparison, compare
from nnjit_studio.foreign_wasm.inspection.cost.records import CompileCost
from nnjit_studio.foreign_wasm.inspection.cost.text import as_text as cost_text
from nnjit_studio.foreign_wasm.inspection.cost.verdict import blamed, verdict
from nnjit_studio.foreign_wasm.inspection.report import as_csv, as_json, as_text
from nnjit_studio.foreign_wasm.inspection.survey import Survey, survey_file
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.support.files import replacing


@verb()
def inspect(
    importing: ImportOptions = SHAPES,
    file: Path | None = argument(type=FILE, required=False),
    compare_with: Path | None = option(
        None, "Another build: which functions changed since then.", flag="--compare"
    ),
    csv: Path | None = option(None, "Also write the table of functions there."),
    compiling: CompileOptions = group(CompileOptions),
    running: PageOptions = group(PageOptions),
    target: TargetOptions = target_options("no_sandbox"),
    as_json_: bool = JSON,
) -> None:
    """Show what is inside a Wasm file: every function's size, blocks, loops and vectors, what is
    slow to compile, and which loops hold more vectors than registers.

    With --compile, also what each function costs an engine. With --page or --run and no FILE,
    where the time of a running page goes, function by function.
    """
    if running.wanted == (file is not None):
        raise UserError(
            "Either a file is inspected or a running page.", "Give FILE, or --page, or --run."
        )
    if file is None:
        where = compiling.engine, target.no_sandbox, compiling.top
        show_page(running, importing, *where, as_json_)
        return
    survey = survey_file(file, note)
    comparison = compare(survey_file(compare_with, note), survey) if compare_with else None
    if csv is not None:
        with replacing(csv) as part:
            part.write_text(as_csv(survey))
        note(f"Wrote {csv}.")
    if not compiling.compile and not compiling.isolates:
        told = "" if as_json_ else as_text(survey, comparison)
        answer(as_json_, as_json(survey, comparison) if as_json_ else None, told)
        return
    cost = compile_cost(survey, compiling, target.no_sandbox)
    told = "" if as_json_ else cost_text(cost, compiling.top, survey.name)
    answer(as_json_, document(survey, comparison, cost) if as_json_ else None, told)


def document(survey: Survey, comparison: Comparison | None, cost: CompileCost) -> dict[str, Any]:
    """The static document with the tiers of each function, and the verdict among its warnings."""
    found = as_json(survey, comparison, {f.index: cost.of(f.index) for f in survey.functions})
    to_blame = [blame.to_json() for tier in cost.tiers for blame in blamed(cost, tier)]
    found["warnings"] += to_blame
    return {**found, "compile": {**cost.to_json(), "verdict": verdict(cost)}}
