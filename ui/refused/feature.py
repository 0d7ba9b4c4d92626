"""The dock of a model that cannot be imported."""

from __future__ import annotations

from nnjit_studio.ui.dock.feature import STAGE, Feature
from nnjit_studio.ui.refused.dock import RefusedPanel

REFUSED: Feature[RefusedPanel] = Feature("refused", "Not imported", RefusedPanel, STAGE)
