"""Why a loop is not offloaded, by name and in words."""

from __future__ import annotations

REASONS = {
    "address": "an address of it is in no local",
    "aliasing": "it may read or overwrite what another iteration writes",
    "branch": "it has control flow inside",
    "call": "it calls a function",
    "copy": "it only moves data",
    "dynamic-trip-count": "how often it runs is not a constant",
    "f64": "it computes in float64, which WGSL lacks",
    "global": "it sets a global of the module",
    "index": "an address is not affine in the loop counters",
    "instruction": "it has an instruction that is not understood",
    "integer": "it computes on integers",
    "kernel": "the compiler has no kernel for it",
    "live-out": "a value other than a sum is used behind it",
    "memory": "it does more to memory than loads and stores",
    "nothing": "it computes no float32 that lasts",
    "operation": "an operation on float32 has no exact counterpart",
    "recurrence": "an iteration needs the result of the one before",
    "size": "it is too large to be followed",
    "small": "it runs too few points for a GPU",
    "stride": "a step of an address is not a constant",
}
"""A sentence's end for each reason."""


class Refused(Exception):
    """A loop that stays as it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason if reason in REASONS else "instruction"
