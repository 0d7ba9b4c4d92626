"""How a row of advice is applied: by options of the import and the target, or by another file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nnjit_studio.model import GivenShapes, ImportOptions
from nnjit_studio.model.recipe import Recipe
from nnjit_studio.records.target_options import TargetOptions

HEADERS: Mapping[str, str] = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
"""Without them a browser gives a page no shared memory, and so no threads."""


@dataclass(frozen=True)
class Apply:
    """Changes to what the user has now; what is not named stays."""

    half_weights: bool = False
    """Whether weights are rounded to f16 at the import."""
    direct: bool = False
    """Whether 3x3 convolutions run without Winograd's tiles."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """Choices of the plan; see :mod:`nnjit_studio.model.plan_choice`."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Smaller shapes of inputs, by name."""
    threads: int = 0
    """0: as many as now."""
    backend: str = ""
    """``webgpu`` or empty: as now."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """That the page's server has to send."""
    recipe: Recipe | None = None
    """How another file is derived, which is opened in place of this one."""

    def importing(self, given: ImportOptions) -> ImportOptions:
        """The options of the import with these changes."""
        shapes = replace(given.shapes, shapes={**given.shapes.shapes, **self.shapes})
        if self.shapes:
            shapes = GivenShapes(shapes={**given.shapes.shapes, **self.shapes})
        return replace(
            given,
            shapes=shapes,
            winograd=given.winograd and not self.direct,
            half_weights=given.half_weights or self.half_weights,
            ways={**given.ways, **self.ways},
        )

    def target(self, given: TargetOptions) -> TargetOptions:
        """The options of the target with these changes."""
        return replace(
            given,
            threads=self.threads or given.threads,
            backend=self.backend or given.backend,
        )

    @property
    def options(self) -> tuple[str, ...]:
        """Words of the command line for ``nnjit export`` and its like; none of them where the
        row is another file alone."""
        words = [f"--shape={n}={','.join(map(str, s))}" for n, s in self.shapes.items()]
        words += ["--weights=f16"] if self.half_weights else []
        words += ["--no-winograd"] if self.direct else []
        words += [f"--way={name}={value}" for name, value in self.ways.items()]
        words += [f"--threads={self.threads}"] if self.threads else []
        words += [f"--backend={self.backend}"] if self.backend else []
        return tuple(words)

    def to_json(self) -> dict[str, Any]:
        recipe = self.recipe
        return {
            "options": list(self.options),
            "headers": dict(self.headers),
            "file": recipe.kind if recipe else "",
            "kept_outputs": list(recipe.outputs) if recipe else [],
            "constants": {n: a.tolist() for n, a in recipe.constants.items()} if recipe else {},
        }
