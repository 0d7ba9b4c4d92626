"""The texts of one kernel after each pass, as the kernel inspector shows them."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.records import Kernel


@dataclass(frozen=True)
class PassText:
    """A kernel after one pass.

    Attributes
    ----------
    form
        What the text is: ``loops``, ``wasm``, ``stages``, ``dispatches``, ``wgsl`` or ``bytes``;
        empty before there is any.
    text
        Where the pass changed nothing, the text after the one before.
    ms
        Median of as many compilations as there are passes.
    """

    name: str
    form: str
    text: str
    ms: float


@dataclass(frozen=True)
class KernelTexts:
    """The texts of one kernel.

    Attributes
    ----------
    program
        The tensor IR that all candidates start from.
    buffers
        Names of the kernel's arguments, in order.
    moved_bytes
        Of all inputs and outputs, each counted once.
    """

    program: str
    buffers: tuple[str, ...]
    moved_bytes: int
    passes: tuple[PassText, ...]
    kernel: Kernel
