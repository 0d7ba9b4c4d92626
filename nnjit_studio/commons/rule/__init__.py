"""The crowd's rule, pure: which settings many reports stand for, and what a device does with it."""

from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import FEWEST, Belief, Standing, believe, two_levels
from nnjit_studio.commons.rule.extended import ExtendedSpace, extended_space, kept_promise
from nnjit_studio.commons.rule.residuals import weights_of

__all__ = [
    "FEWEST",
    "Ballot",
    "Belief",
    "ExtendedSpace",
    "Standing",
    "believe",
    "extended_space",
    "kept_promise",
    "two_levels",
    "weights_of",
]
