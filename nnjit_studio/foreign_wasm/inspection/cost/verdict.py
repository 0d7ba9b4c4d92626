"""The compile cost in words: which function is to blame, if one is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.foreign_wasm.inspection.cost.records import Compilation, CompileCost

BLAMED_SHARE = 0.2
"""Of the whole tier's time: from here on one function is a cliff and not only large."""
BLAMED_MS = 500.0
"""Nobody waits for less."""
ADVICE = (
    "What to do: split it, or build it with less inlining and unrolling; a comparison with an "
    "older build shows whether it grew."
)

Name = Callable[[int], str]


@dataclass(frozen=True)
class Blame:
    """One function that dominates a tier; ``of_ms`` is what the whole module takes."""

    function: int
    tier: str
    ms: float
    of_ms: float
    text: str

    @property
    def share(self) -> float:
        return self.ms / self.of_ms

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "share": round(self.share, 4), "rule": "compile-time"}


def blamed(cost: CompileCost, tier: Compilation, name: Name = lambda index: "") -> list[Blame]:
    """Functions that take :data:`BLAMED_SHARE` of a tier's time and :data:`BLAMED_MS`.

    The whole is the sum over the functions, or with isolation the time of the
    whole module; without either nobody is blamed.
    """
    total = sum(c.ms for c in tier.functions.values())
    if tier.method == "isolation":
        total = max(total, tier.whole_ms or 0.0)
        if tier.whole_ms is None:
            return []
    found = [
        Blame(index, tier.tier, each.ms, total, _sentence(cost, tier, index, total, name))
        for index, each in tier.functions.items()
        if each.ms >= max(BLAMED_MS, BLAMED_SHARE * total)
    ]
    return sorted(found, key=lambda blame: -blame.ms)


def verdict(cost: CompileCost, name: Name = lambda index: "") -> str:
    """A line for each tier, and what to do where a function is to blame."""
    lines = [_of_tier(cost, tier, name) for tier in cost.tiers]
    if any(blamed(cost, tier) for tier in cost.tiers):
        lines.append(ADVICE)
    return "\n".join(lines)


def _of_tier(cost: CompileCost, tier: Compilation, name: Name) -> str:
    found = blamed(cost, tier, name)
    if found:
        return " ".join(blame.text for blame in found)
    slowest = max(tier.functions.items(), key=lambda pair: pair[1].ms, default=None)
    if slowest is None:
        return f"{cost.engine}, {tier.tier}: no function was compiled."
    index, its = slowest
    alone = tier.method == "isolation" and len(tier.functions) > 1
    none = (
        f"none of the {len(tier.functions)} measured functions" if alone else "no single function"
    )
    return (
        f"{cost.engine}, {tier.tier}: {none} is to blame; "
        f"the slowest is {_called(index, name)} with {seconds(its.ms)}."
    )


def _called(index: int, name: Name) -> str:
    return f"function {index} ({name(index)})" if name(index) else f"function {index}"


def _sentence(cost: CompileCost, tier: Compilation, index: int, total: float, name: Name) -> str:
    its = tier.functions[index]
    memory = f" and up to {its.memory_bytes / 2**20:,.0f} MiB" if its.memory_bytes else ""
    return (
        f"{cost.engine}, {tier.tier}: {_called(index, name)} is to blame: it takes "
        f"{seconds(its.ms)}{memory}, {its.ms / total:.0%} of the {seconds(total)} of the module."
    )


def seconds(ms: float) -> str:
    """Milliseconds for people, with a unit that suits them."""
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.2f} ms"


def slowest(cost: CompileCost, top: int) -> Sequence[int]:
    """The functions that take longest in the last tier, the slowest first."""
    functions = cost.tiers[-1].functions
    return sorted(functions, key=lambda index: -functions[index].ms)[:top]
