"""Whether a genuine report is for this server, of these days, and not one that it has."""

from __future__ import annotations

from nnjit_studio.commons.report.document import Report
from nnjit_studio.errors import CommonsError

OLDEST_S = 7 * 24 * 3600
"""Seconds after which a report has expired."""
AHEAD_S = 600
"""Seconds that a device's clock may be ahead."""


def check_fresh(report: Report, server: str, now: int) -> None:
    """Refuse a report for another server, or of another time.

    Parameters
    ----------
    server
        This server's address, as its operator gave it.
    now
        Seconds since 1970, UTC.

    Raises
    ------
    CommonsError
    """
    if report.server != server:
        raise CommonsError("The report is for another server.", f"This one is {server}.")
    if report.created < now - OLDEST_S:
        raise CommonsError("The report has expired.", "Send a new one.")
    if report.created > now + AHEAD_S:
        raise CommonsError("The report is from the future.", "Set the device's clock.")


def check_order(number: int, digest: str, last: tuple[int, str] | None) -> bool:
    """Whether a device's report is new; False where it is its last one once more.

    Parameters
    ----------
    last
        Number and digest of the last report of this device's key, None before the first.

    Raises
    ------
    CommonsError
        When it is an older one, or another one under a number that was used.
    """
    if last is None or number > last[0]:
        return True
    if (number, digest) == last:
        return False
    raise CommonsError("The report was sent before.", "Give a new report the next number.")
