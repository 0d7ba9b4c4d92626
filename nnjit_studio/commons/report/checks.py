"""What a report may hold. Every text has a short alphabet, so that nothing else fits into it."""

from __future__ import annotations

import math
import re

from nnjit_studio.commons.report.document import (
    FORMAT,
    MOST_FINDINGS,
    TOP,
    Finding,
    Place,
    Report,
    Timing,
)
from nnjit_studio.errors import CommonsError, UserError
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.gpu_candidate import GpuCandidate, parse_candidate
from nnjit_studio.records.tiers import GPU_TIERS, TIERS

ENGINES = ("chromium", "firefox", "webkit", "embedded")
"""Names of browser engines; ``embedded`` is the Studio's own view."""
_SIZES = r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8}){0,11}"
_WORD = r"[a-z0-9][a-z0-9_.+=,-]{0,95}"
_PATTERNS = {
    "kind": r"[a-z0-9][a-z0-9_.-]{0,39}",
    "dims": _SIZES,
    "dtype": r"[a-z][a-z0-9]{0,15}",
    "layout": r"row-major(\+[a-z][a-z0-9_.:()-]{0,39}){0,16}",
    "primitives": _WORD,
    "family": r"[a-z0-9][a-z0-9_.-]{0,63}",
    "device": r"[0-9a-f]{16}",
    "compiler": r"[a-z0-9][a-z0-9_.+-]{0,31}",
}
_SERVER = re.compile(r"https?://[a-z0-9.\[\]:-]{1,200}")
_MOST_MS, _MOST_SAMPLES, _MOST_THREADS, _MOST_VERSION = 1e6, 1_000_000, 1024, 99_999
_MOST_NUMBER = 2**53 - 1
AGAIN = "Send it again with a current version of the Studio."


def check_report(report: Report) -> None:
    """Refuse a report that says what none may say.

    Raises
    ------
    CommonsError
        One sentence that names the field.
    """
    _need(report.format == FORMAT, f"The report has format {report.format}, not {FORMAT}.")
    _need(bool(_SERVER.fullmatch(report.server)), "The report's server is no address.")
    _need(0 < report.number <= _MOST_NUMBER, "The report's number is out of range.")
    _need(0 < report.created <= _MOST_NUMBER, "The report's time is out of range.")
    count = len(report.findings)
    _need(0 < count <= MOST_FINDINGS, f"The report has {count} findings, not 1 to {MOST_FINDINGS}.")
    places = {finding.place for finding in report.findings}
    _need(len(places) == count, "The report speaks of one kernel twice.")
    for finding in report.findings:
        check_finding(finding)


def check_finding(finding: Finding) -> None:
    """Refuse a finding that says what none may say.

    Raises
    ------
    CommonsError
    """
    check_place(finding.place)
    _need(finding.default.settings == DEFAULT_SETTINGS, "The finding has no time of the default.")
    _need(0 < len(finding.best) <= TOP, f"The finding has not 1 to {TOP} settings.")
    _check_timing(finding.default)
    for timing in finding.best:
        _check_timing(timing)
        check_settings(timing.settings, finding.place.tier)
    times = [timing.ms for timing in finding.best]
    _need(times == sorted(times), "The finding's settings are not ordered by their time.")
    _need(len({t.settings for t in finding.best}) == len(times), "The finding repeats settings.")


def check_place(place: Place) -> None:
    """Refuse a key with a field that is none.

    Raises
    ------
    CommonsError
    """
    for name, pattern in _PATTERNS.items():
        if not re.fullmatch(pattern, getattr(place, name)):
            raise CommonsError(f"The key's {name} is not of the form that it must have.", AGAIN)
    _need(place.engine in ENGINES, f"The key's engine is none of {', '.join(ENGINES)}.")
    _need(place.tier in (*TIERS, *GPU_TIERS), "The key's tier is unknown.")
    _need(0 < place.version <= _MOST_VERSION, "The key's version is out of range.")
    _need(0 < place.threads <= _MOST_THREADS, "The key's threads are out of range.")


def check_settings(settings: str, tier: str) -> None:
    """Refuse settings that no candidate of the tier spells so."""
    try:
        candidate = parse_candidate(settings) if len(settings) <= 200 else None
    except UserError:
        candidate = None
    fits = candidate is not None and str(candidate) == settings
    fits = fits and isinstance(candidate, GpuCandidate) == (tier in GPU_TIERS)
    _need(fits, "The finding's settings are none of this tier.")


def _check_timing(timing: Timing) -> None:
    times = (timing.low_ms, timing.ms, timing.high_ms)
    right = all(math.isfinite(t) and 0 < t <= _MOST_MS for t in times)
    _need(right and times == tuple(sorted(times)), "A time is no median inside its interval.")
    _need(0 < timing.samples <= _MOST_SAMPLES, "The number of samples is out of range.")


def _need(holds: bool, error: str) -> None:
    if not holds:
        raise CommonsError(error, AGAIN)
