"""What the compile process tells of itself."""

from __future__ import annotations

from nnjit_studio.compiler.process.handlers.registry import State, handles
from nnjit_studio.compiler.process.operations import ConfinementRequest


@handles(ConfinementRequest)
def confinement(state: State, request: ConfinementRequest) -> tuple[str, ...]:
    return state.confined
