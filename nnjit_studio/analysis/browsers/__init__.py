"""Browsers side by side: their winners, where they differ, and what a common set would cost."""

from nnjit_studio.analysis.browsers.comparison import BrowserComparison, Common, Cost
from nnjit_studio.analysis.browsers.crossing import Crossing, Ratio, Winner
from nnjit_studio.analysis.browsers.tables import as_csv, as_text

__all__ = [
    "BrowserComparison",
    "Common",
    "Cost",
    "Crossing",
    "Ratio",
    "Winner",
    "as_csv",
    "as_text",
]
