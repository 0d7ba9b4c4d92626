"""Two bundles compared, for the verb ``compare``."""

from __future__ import annotations

import sys
from pathlib import Path

from nnjit_studio.cli.common import answer
from nnjit_studio.cli.verbs import AT_LEAST_0, POSITIVE, group, option
from nnjit_studio.doctor.deployment.versions import Limits, compare_versions, exceeded, text
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.errors import UserError
from nnjit_studio.records.target_options import TargetOptions

BUNDLE_LIMITS = group(
    Limits,
    {
        "slower": option(
            None, "Of OTHER: at most so many times the time of MODEL, such as 1.05.",
            flag="--max-slower", type=POSITIVE,
        ),
        "growth_mb": option(
            None, "Of OTHER: at most so many MB more.", flag="--max-growth-mb", type=AT_LEAST_0
        ),
        "error": option(
            None, "Of OTHER: the largest relative difference of an output.", flag="--max-error",
            type=AT_LEAST_0,
        ),
    },
)  # fmt: skip


def compare_bundles(
    a: Path, b: Path, limits: Limits, seconds: float, target: TargetOptions, as_json: bool
) -> None:
    """Compare, answer, and end with 1 where ``b`` exceeds a limit."""
    if target.embedded:
        raise UserError(
            "Two bundles are compared in a browser.", "Give one with --target, such as chromium."
        )
    browser = browsers.find(target.target)
    found = compare_versions(a, b, browser, seconds, target.threads)
    wrong = exceeded(found, limits)
    document = {"ok": not wrong, **found.to_json(), "exceeded": wrong}
    answer(as_json, document, "\n".join([text(found), *(f"FAIL   {each}" for each in wrong)]))
    if wrong:
        sys.exit(1)
