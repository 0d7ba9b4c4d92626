"""The subject of a program: the part that a template works on, as a recogniser found it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Protocol, TypeVar

from nnjit_studio.compiler.ir.tensor_ir import Program


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


_T = TypeVar("_T")
_MOST = 256


def remembered(function: Callable[[Program], _T]) -> Callable[[Program], _T]:
    """The function with a memory of the programs that it was last asked about.

    By identity, because hashing a program costs as much as reading it; an
    entry keeps its program alive, so its identity stays its own.
    """
    recent: dict[int, tuple[Program, _T]] = {}

    @wraps(function)
    def ask(program: Program) -> _T:
        found = recent.get(id(program))
        if found is None:
            if len(recent) >= _MOST:
                recent.clear()
            found = recent[id(program)] = program, function(program)
        return found[1]

    return ask
