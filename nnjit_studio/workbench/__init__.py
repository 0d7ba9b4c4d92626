"""One model on one target: what window and command line both drive.

Three classes, each on top of the one before: the page and what belongs to it
(:mod:`page_bench`), the open model with its kernels (:mod:`model_bench`), and
what is done with it (:mod:`workbench`).
"""

from nnjit_studio.workbench.open_model import OpenedModel, example_feeds
from nnjit_studio.workbench.page import SystemClock
from nnjit_studio.workbench.workbench import Workbench

__all__ = ["OpenedModel", "SystemClock", "Workbench", "example_feeds"]
