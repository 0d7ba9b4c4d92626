"""Engines and processors that a module is scheduled for: how many vectors stay in registers."""

from __future__ import annotations

from nnjit_studio.errors import UserError
from nnjit_studio.wasm_file.flow.vectors import V8_VECTORS

_VECTORS = {
    **{("v8", "x64"): V8_VECTORS, ("spidermonkey", "x64"): 15, ("jsc", "x64"): 15},
    **{("v8", "arm64"): 30, ("spidermonkey", "arm64"): 31, ("jsc", "arm64"): 31},
}
"""Each compiler keeps one register, or two, for itself: x64 has 16, arm64 has 32."""
_PROCESSORS = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def registers_of(engine: str, machine: str) -> int:
    """Registers for vectors of 128 bits; what lives beyond them goes to the stack.

    Parameters
    ----------
    engine
        ``v8``, ``spidermonkey`` or ``jsc``.
    machine
        As ``platform.machine()`` says it.

    Raises
    ------
    UserError
        When that pair is not known.
    """
    found = _VECTORS.get((engine, _PROCESSORS.get(machine.lower(), "")))
    if found is None:
        raise UserError(
            f"The registers of {engine} on {machine} are not known.",
            "Give the number of its vector registers with --registers.",
        )
    return found
