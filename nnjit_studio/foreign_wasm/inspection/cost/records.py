"""The cost of compiling a Wasm module, by tier and function."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Progress = Callable[[str], None]
"""Gets a line for a person now and then, on any thread."""


@dataclass(frozen=True)
class TierCost:
    """One function in one tier.

    Attributes
    ----------
    samples_ms
        Milliseconds of each compilation; with isolation, of the function without its stub.
    code_bytes
        Machine code; None where the engine does not tell.
    memory_bytes
        Peak of the compiler's own memory for this function; None where not known.
    """

    samples_ms: tuple[float, ...]
    code_bytes: int | None = None
    memory_bytes: int | None = None

    @property
    def ms(self) -> float:
        """The median sample."""
        return statistics.median(self.samples_ms)

    def to_json(self) -> dict[str, Any]:
        """With the lowest and highest sample where there are several."""
        ms = {"ms": round(self.ms, 4)}
        if len(self.samples_ms) > 1:
            ms |= {"low": round(min(self.samples_ms), 4), "high": round(max(self.samples_ms), 4)}
        return {**ms, "bytes": self.code_bytes, "memory_bytes": self.memory_bytes}


@dataclass(frozen=True)
class Compilation:
    """One tier of one engine.

    Attributes
    ----------
    method
        ``trace``: the engine's own figures of the whole module; ``isolation``: the
        difference of two modules, with the function and with a stub in its place.
    functions
        By function index of the module.
    whole_ms
        Wall-clock time of compiling the whole module; None where only single functions were
        compiled.
    peak_rss_bytes
        Largest resident memory of the compiling process; None where not known.
    """

    tier: str
    method: str
    functions: Mapping[int, TierCost]
    whole_ms: float | None = None
    peak_rss_bytes: int | None = None


@dataclass(frozen=True)
class CompileCost:
    """What one engine needs for a module; ``failed`` has its words where it refuses a function."""

    engine: str
    version: str
    tiers: tuple[Compilation, ...]
    failed: Mapping[int, str] = field(default_factory=dict)

    def of(self, index: int) -> dict[str, dict[str, Any]]:
        """The function's cost by tier, in the JSON form of ``nnjit inspect``."""
        return {
            tier.tier: tier.functions[index].to_json()
            for tier in self.tiers
            if index in tier.functions
        }

    def to_json(self) -> dict[str, Any]:
        """Everything but the functions, which have their rows elsewhere."""
        return {
            "engine": self.engine,
            "version": self.version,
            "tiers": {
                t.tier: {
                    "method": t.method,
                    "functions": len(t.functions),
                    "sum_ms": round(sum(c.ms for c in t.functions.values()), 3),
                    "code_bytes": sum(c.code_bytes or 0 for c in t.functions.values()) or None,
                    "whole_ms": t.whole_ms,
                    "peak_rss_bytes": t.peak_rss_bytes,
                }
                for t in self.tiers
            },
            "failed": {str(index): text for index, text in self.failed.items()},
        }
