"""What the compile process tells of one kernel: its texts after each pass."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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

    def header(self) -> dict[str, Any]:
        """Everything but the kernel's bytes, as JSON."""
        return {
            "program": self.program,
            "buffers": list(self.buffers),
            "moved_bytes": self.moved_bytes,
            "passes": [asdict(p) for p in self.passes],
            "kernel": self.kernel.header(),
        }

    @classmethod
    def from_header(cls, header: dict[str, Any], data: bytes) -> KernelTexts:
        return cls(
            header["program"],
            tuple(header["buffers"]),
            header["moved_bytes"],
            tuple(PassText(**p) for p in header["passes"]),
            Kernel.from_header(header["kernel"], data),
        )
