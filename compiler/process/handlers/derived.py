"""Jobs that make another file of a model, and compare both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.compiler.derived import derive as deriving
from nnjit_studio.compiler.derived import layers
from nnjit_studio.compiler.process.handlers.registry import State
from nnjit_studio.model.recipe import Derived, LayerError, Recipe


def derive(
    state: State, path: Path, out: Path, recipe: Recipe, feeds: Mapping[str, NDArray[Any]]
) -> Derived:
    return deriving.derive(path, out, recipe, feeds, state.phase)


def worst_layer(
    state: State, path: Path, other: Path, feeds: Mapping[str, NDArray[Any]]
) -> LayerError:
    return layers.worst_layer(path, other, feeds)
