"""The texts of one kernel after each pass, as the kernel inspector shows them."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.records import Kernel


@dataclass(frozen=True)
class PassText:
    """A kernel after one pass."""

    name: str
    form: str
    """What the text is: ``loops``, ``wasm``, ``stages``, ``dispatches``, ``wgsl`` or ``bytes``;
    empty before there is any."""
    text: str
    """Where the pass changed nothing, the text after the one before."""
    ms: float
    """Median of as many compilations as there are passes."""


@dataclass(frozen=True)
class KernelTexts:
    """The texts of one kernel."""

    program: str
    """The tensor IR that all candidates start from."""
    buffers: tuple[str, ...]
    """Names of the kernel's arguments, in order."""
    moved_bytes: int
    """Of all inputs and outputs, each counted once."""
    passes: tuple[PassText, ...]
    kernel: Kernel
