"""The schema of what travels to a server of the commons: settings and times, nothing else."""

from nnjit_studio.commons.report.checks import check_report
from nnjit_studio.commons.report.document import Finding, Place, Report, Timing
from nnjit_studio.commons.report.freshness import check_fresh, check_order
from nnjit_studio.commons.report.signed import SignedReport, public_key_of, read_signed, sign

__all__ = [
    "Finding",
    "Place",
    "Report",
    "SignedReport",
    "Timing",
    "check_fresh",
    "check_order",
    "check_report",
    "public_key_of",
    "read_signed",
    "sign",
]
