"""What a comparison tells; it reads no model and no module."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.foreign_wasm.turbo.gate.gain import Gain


@dataclass(frozen=True)
class Compared:
    """A build beside the original; ``problem`` says why it could not run.

    ``difference`` is the largest of an output, as a share of its largest number; 0 when all
    bits are equal.
    """

    case: str
    place: str
    build: str = ""
    before_ms: float | None = None
    after_ms: float | None = None
    gain: Gain | None = None
    difference: float | None = None
    problem: str = ""
