"""Lab modes: engine flags that no visitor of a page has.

What they show is stored under a target of its own and never enters a bundle.
"""

from __future__ import annotations

LABS = {"revectorize": "--js-flags=--experimental-wasm-revectorize"}
"""Browser flag of each mode. ``revectorize``: V8 packs pairs of 128-bit operations
into 256-bit ones, where a kernel stores such pairs side by side."""


def lab_of(flags: str) -> str:
    """The mode that browser flags switch on, however they are written; empty for none."""
    for name, flag in LABS.items():
        if flag.partition("=")[2] in flags:
            return name
    return ""


def lab_target(target: str, flags: str) -> str:
    """The target's name with its mode: the identity of everything measured there."""
    lab = lab_of(flags)
    return f"{target}+{lab}" if lab else target


def is_lab(target: str) -> bool:
    """Whether a target's name, such as a record's, is that of a lab mode."""
    return any(f"+{name}" in target for name in LABS)
