"""Tuning: from the first kernels of a model to the best known ones."""

from nnjit_studio.tuner.session import TuneOptions, TuningSession

__all__ = ["TuneOptions", "TuningSession"]
