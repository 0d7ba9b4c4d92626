"""Which bodies are kept: for the bit-identical module, and for the one with fused products."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nnjit_studio.errors import BugError
from nnjit_studio.foreign_wasm.turbo.candidates import Candidate
from nnjit_studio.foreign_wasm.turbo.gate.gain import Gain
from nnjit_studio.foreign_wasm.turbo.gate.gate import Tried
from nnjit_studio.foreign_wasm.turbo.loops.prove import difference
from nnjit_studio.foreign_wasm.turbo.loops.rewrite import rebuilt
from nnjit_studio.foreign_wasm.turbo.loops.variants import FMA

Kept = Mapping[tuple[int, int], Tried]
"""By function and loop."""


def best(tried: Iterable[Tried], fma: bool) -> dict[tuple[int, int], Tried]:
    """Of each loop the fastest body that passed; without ``fma`` of those that keep every bit.

    Of the orders that are not told apart from the fastest, the one that holds fewest vectors: it
    leaves the engine most room.
    """
    passed: dict[tuple[int, int], list[Tried]] = {}
    for t in tried:
        if t.passed and (fma or t.variant.passed != FMA):
            passed.setdefault((t.function, t.loop.first), []).append(t)
    return {key: _best(bodies) for key, bodies in passed.items()}


def _best(bodies: Sequence[Tried]) -> Tried:
    fastest = max(bodies, key=lambda t: _gain(t).median)
    alike = (
        t
        for t in bodies
        if t.variant.passed == fastest.variant.passed and _gain(t).high >= _gain(fastest).median
    )
    return min(alike, key=lambda t: t.variant.plan.peak)


def _gain(tried: Tried) -> Gain:
    assert tried.gain is not None
    return tried.gain


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
