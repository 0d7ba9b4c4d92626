"""Spaces: the candidates of a workload, the rules that choose them, and their order."""

from nnjit_studio.records.candidate import DEFAULT_SETTINGS, ORDERS, Candidate, settings_of
from nnjit_studio.space.lite_space import (
    LiteSpace,
    SpaceEntry,
    Verdict,
    build_lite_space,
    explain,
    naive_size,
)
from nnjit_studio.space.rules import Usage

__all__ = [
    "DEFAULT_SETTINGS",
    "ORDERS",
    "Candidate",
    "LiteSpace",
    "SpaceEntry",
    "Usage",
    "Verdict",
    "build_lite_space",
    "explain",
    "naive_size",
    "settings_of",
]
