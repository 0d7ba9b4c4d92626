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


def _limits(
    max_slower: float | None = None,
    max_growth_mb: float | None = None,
    max_error: float | None = None,
) -> Limits:
    return Limits(max_slower, max_growth_mb, max_error)


BUNDLE_LIMITS = group(
    _limits,
    {
        "max_slower": option(
            None, "Of OTHER: at most so many times the time of MODEL, such as 1.05.", type=POSITIVE
        ),
        "max_growth_mb": option(None, "Of OTHER: at most so many MB more.", type=AT_LEAST_0),
        "max_error": option(
            None, "Of OTHER: the largest relative difference of an output.", type=AT_LEAST_0
        ),
    },
)


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
