"""A space: a problem, the rules on its candidates, and their use of the hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nnjit_studio.records.candidate import Tiles

C = TypeVar("C", bound=Tiles)
P = TypeVar("P")

BLOCKS_PER_CORE = 1
"""``Block_core`` on Wasm (Table 1)."""


@dataclass(frozen=True)
class Usage:
    """Use of hardware by Table 1: elements of registers of a thread, bytes of L1 of a block.

    On a GPU bytes of workgroup memory; ``blocks_per_core`` is ``Block_core``.
    """

    registers: int
    l1_bytes: int
    blocks_per_core: int = BLOCKS_PER_CORE


@dataclass(frozen=True)
class Space(Generic[C, P]):
    """A problem and its rules."""

    problem: P
    """The workload and device that the rules look at."""
    rules: tuple[Callable[[C, P], tuple[bool, str]], ...]
    """Each answers for any candidate, with its numbers as text."""
    told: tuple[Callable[[C, P], tuple[bool, str]], ...]
    """Rules whose answers are a candidate's reason."""
    find: Callable[[P], Sequence[C]]
    """What all rules accept, best guess first."""
    usage: Callable[[C, P], Usage]
    """Of a candidate, accepted or not."""
    varies: Callable[[C, P], tuple[str, ...]] = lambda c, p: ()
    """The settings in which a candidate leaves the first choice for its tile."""
    wider: Callable[[P], Iterable[C]] | None = None
    """Candidates that compile, whatever the heuristics say; None where nobody asked for them."""
