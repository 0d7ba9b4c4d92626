"""Tuning: from the first kernels of a model to the best known ones."""

from nnjit_studio.tuner.context import TunedModel, TuneOptions, TuningContext
from nnjit_studio.tuner.session import TuningSession

__all__ = ["TuneOptions", "TunedModel", "TuningContext", "TuningSession"]
