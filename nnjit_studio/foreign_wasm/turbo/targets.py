"""Engines and processors that a module is scheduled for: how many vectors stay in registers."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.errors import UserError


@dataclass(frozen=True)
class Target:
    """An engine on a processor.

    Attributes
    ----------
    vectors
        128-bit registers that its compiler hands out; what lives beyond them goes to the stack.
    """

    name: str
    vectors: int


TARGETS = {
    t.name: t
    for t in (
        Target("v8-x64", 15),
        Target("v8-arm64", 30),
        Target("spidermonkey-x64", 15),
        Target("spidermonkey-arm64", 31),
        Target("jsc-x64", 15),
        Target("jsc-arm64", 31),
    )
}
"""Each compiler keeps one register, or two, for itself: x64 has 16, arm64 has 32."""


def target_of(engine: str, machine: str) -> Target:
    """The target of an engine (``v8``, ``spidermonkey``, ``jsc``) on ``platform.machine()``.

    Raises
    ------
    UserError
        When that pair is not known.
    """
    processor = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(
        machine.lower(), machine.lower()
    )
    found = TARGETS.get(f"{engine}-{processor}")
    if found is None:
        raise UserError(
            f"The registers of {engine} on {machine} are not known.",
            "Give the number of its vector registers with --registers.",
        )
    return found
