"""What a page asks of the compile service: kernels of one workload for one kind of processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnjit_studio.errors import CommonsError
from nnjit_studio.records import TIERS, DeviceProfile

_NUMBERS = {
    "registers": (8, 64),
    "l1": (8 << 10, 1 << 20),
    "l2": (64 << 10, 64 << 20),
    "after": (0, 100_000),
}
"""Vector registers, bytes of the caches, and the candidates that the page has: least and most."""
QUESTION = {"workload": "string", "tier": "string", **dict.fromkeys(_NUMBERS, "integer")}
"""The fields of a question, with their types in JSON Schema."""
_LONGEST = 120


@dataclass(frozen=True)
class Wanted:
    """A question."""

    workload: str
    """The key with its fingerprint, such as ``matmul:384x768x768:f32+bias#fa9c1b7390f9``."""
    tier: str
    registers: int
    l1: int
    """Bytes, as ``l2``."""
    l2: int
    after: int
    """Candidates of the lite space that the page has seen."""

    @property
    def device(self) -> DeviceProfile:
        """As much of the device as a lite space depends on."""
        return DeviceProfile(
            "", "", vector_registers=self.registers, l1_bytes=self.l1, l2_bytes=self.l2,
            tiers=(self.tier,),
        )  # fmt: skip


def wanted_of(query: Mapping[str, str]) -> Wanted:
    """Read a question.

    Raises
    ------
    CommonsError
    """
    if set(query) != set(QUESTION):
        raise CommonsError("The question is not whole.", f"Give {', '.join(QUESTION)}.")
    if query["tier"] not in TIERS or len(query["workload"]) > _LONGEST:
        raise CommonsError("The tier or the workload is none.", f"Tiers are {', '.join(TIERS)}.")
    numbers = {}
    for name, (least, most) in _NUMBERS.items():
        text = query[name]
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
        if not least <= number <= most:
            raise CommonsError(
                f"{name} is no number from {least} to {most}.", "Check the question."
            )
        numbers[name] = number
    return Wanted(query["workload"], query["tier"], **numbers)
