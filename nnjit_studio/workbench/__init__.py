"""The workbench: one model on one target, driven by window and command line."""

from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import OpenModel
from nnjit_studio.workbench.page import EnginePage, SystemClock
from nnjit_studio.workbench.workbench import Workbench

__all__ = ["EnginePage", "ModelOnPage", "OpenModel", "SystemClock", "Workbench"]
