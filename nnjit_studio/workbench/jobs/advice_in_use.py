"""The rows of advice that are in use, measured as the one model that they make."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.measure import Found, measure
from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.advice.records import MEASURING, Row
from nnjit_studio.verdict.measure import Visits
from nnjit_studio.workbench.advice_forms import Plain, as_open, of_file
from nnjit_studio.workbench.jobs.advice import judged, native_outputs
from nnjit_studio.workbench.model import ModelOnPage

NAME = "in-use"


def measure_in_use(
    model: ModelOnPage, visits: Visits, plain: Plain, title: str, options: AdviceOptions
) -> Iterator[Row]:
    """The open model in turns with the plain file that it was made of; what is known so far.

    Errors are against the plain file in native ONNX Runtime, or in our engine where that cannot
    run it.

    Raises
    ------
    ModelError, UserError, CompileError
        When the plain file is not there any more; when the job was cancelled.
    TargetError, PageError
    """
    page, row = model.page, Row(NAME, title, Apply(), state=MEASURING)
    with page.working(), tempfile.TemporaryDirectory(prefix="nnjit-advice-") as name:
        yield row
        folder = Path(name)
        base, mine = of_file(model, plain, folder), as_open(model, folder, NAME)
        found = Found()
        for found in measure(
            folder, base.form, mine.form, visits, options.seconds, 0.0, lambda: page.cancelled
        ):
            if found.measured:
                yield replace(row, measured=found.measured)
        native = native_outputs(model, plain.path, plain.feeds, base.form.outputs)
        yield judged(row, found, native or found.base_outputs, options.max_error)
