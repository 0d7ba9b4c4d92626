"""Which bodies are kept: for the bit-identical module, and for the one with fused products."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nnjit_studio.errors import BugError
from nnjit_studio.foreign_wasm.turbo.candidates import Candidate
from nnjit_studio.foreign_wasm.turbo.gate.gate import Tried
from nnjit_studio.foreign_wasm.turbo.loops.prove import difference
from nnjit_studio.foreign_wasm.turbo.loops.rewrite import rebuilt
from nnjit_studio.foreign_wasm.turbo.loops.variants import FMA

Kept = Mapping[tuple[int, int], Tried]
"""By function and loop."""


def best(tried: Iterable[Tried], fma: bool) -> dict[tuple[int, int], Tried]:
    """Of each loop the fastest body that passed; without ``fma`` of those that keep every bit."""
    found: dict[tuple[int, int], Tried] = {}
    for t in tried:
        key = (t.function, t.loop.first)
        if not t.passed or (t.variant.passed == FMA and not fma):
            continue
        if key not in found or _median(t) > _median(found[key]):
            found[key] = t
    return found


def _median(tried: Tried) -> float:
    assert tried.gain is not None
    return tried.gain.median


def bodies(candidates: Sequence[Candidate], kept: Kept, fma: bool) -> dict[int, bytes]:
    """New bodies of functions, each proven to be the old function.

    Raises
    ------
    BugError
        When a proof fails: what was written is then not what was meant.
    """
    new: dict[int, bytes] = {}
    for candidate in candidates:
        index = candidate.function.index
        choice = {
            loop.first: (loop, kept[index, loop.first].variant)
            for loop, _ in candidate.loops
            if (index, loop.first) in kept
        }
        if not choice:
            continue
        new[index] = rebuilt(candidate.function, choice)
        if wrong := difference(candidate.function, new[index], fma):
            raise BugError(f"The new body of function {index} is not proven: {wrong}.")
    return new
