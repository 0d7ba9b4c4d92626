"""The verb ``inspect``: the functions of a Wasm file and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

from nnjit_studio.cli.common import JSON, answer, note
from nnjit_studio.cli.verbs import FILE, argument, option, verb
from nnjit_studio.inspection.comparison import compare
from nnjit_studio.inspection.report import as_csv, as_json, as_text
from nnjit_studio.inspection.survey import survey_file
from nnjit_studio.support.files import replacing


@verb()
def inspect(
    file: Path = argument(type=FILE),
    compare_with: Path | None = option(
        None, "Another build: which functions changed since then.", flag="--compare"
    ),
    csv: Path | None = option(None, "Also write the table of functions there."),
    as_json_: bool = JSON,
) -> None:
    """Show what is inside a Wasm file: every function's size, blocks, loops and vectors, what is
    slow to compile, and which loops hold more vectors than registers.
    """
    survey = survey_file(file)
    comparison = compare(survey_file(compare_with), survey) if compare_with else None
    if csv is not None:
        with replacing(csv) as part:
            part.write_text(as_csv(survey))
        note(f"Wrote {csv}.")
    answer(
        as_json_,
        as_json(survey, comparison) if as_json_ else None,
        "" if as_json_ else as_text(survey, comparison),
    )
