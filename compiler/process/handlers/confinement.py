"""What the compile process tells of itself."""

from __future__ import annotations

from nnjit_studio.compiler.process.handlers.registry import State


def confinement(state: State) -> tuple[str, ...]:
    return state.confined
