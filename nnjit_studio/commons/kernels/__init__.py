"""The compiler as a service: lite spaces composed and kernels compiled from settings alone."""

from nnjit_studio.commons.kernels.pool import Pool
from nnjit_studio.commons.kernels.shelf import Shelf
from nnjit_studio.commons.kernels.wanted import Wanted, wanted_of

__all__ = ["Pool", "Shelf", "Wanted", "wanted_of"]
