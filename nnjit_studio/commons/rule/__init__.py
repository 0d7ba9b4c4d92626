"""The crowd's rule, pure: which settings many reports stand for, and what a device does with it."""

from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import FEWEST, Belief, Standing, believe, two_levels
from nnjit_studio.commons.rule.extended import (
    TRUSTED_SCORE,
    ExtendedSpace,
    extended_space,
    kept_promise,
    least_kept,
)
from nnjit_studio.commons.rule.residuals import weights_of

__all__ = [
    "FEWEST",
    "TRUSTED_SCORE",
    "Ballot",
    "Belief",
    "ExtendedSpace",
    "Standing",
    "believe",
    "extended_space",
    "kept_promise",
    "least_kept",
    "two_levels",
    "weights_of",
]
