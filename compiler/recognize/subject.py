"""The subject of a program: the part that a template works on, as a recogniser found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PackedWeight:
    """A weight that kernels may want in panels: ``k`` rows of ``n`` words of 32 bits."""

    buffer: str
    k: int
    n: int


class Subject(Protocol):
    """The properties that name a workload, whatever its template."""

    @property
    def kind(self) -> str:
        """Of the workload."""

    @property
    def dims(self) -> tuple[int, ...]:
        """Of the workload, as its kind orders them."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Words for what the epilogue does."""

    @property
    def flops(self) -> int:
        """Two for each multiply-add."""

    @property
    def packed(self) -> PackedWeight | None:
        """Its packable weight, if it has one."""

    def tunable(self, dtype: str) -> bool:
        """Whether a lite space holds candidates for it, where the result has this dtype."""


def packed_weight(subject: Subject | None) -> PackedWeight | None:
    """The packable weight of a subject, if it has one."""
    return None if subject is None else subject.packed
