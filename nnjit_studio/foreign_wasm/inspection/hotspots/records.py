"""Where the time of a page went: samples by Wasm function, and what is known of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts
from nnjit_studio.wasm_file.flow.vectors import V8_VECTORS


@dataclass(frozen=True)
class Hotspot:
    """One Wasm function that was seen running."""

    module: str
    """Address of its module, as the engine names it."""
    index: int
    """In the module's index space."""
    name: str
    self_ms: float
    """Time in its own instructions, over all threads."""
    total_ms: float
    """With what it called."""
    share: float
    """Its own part of the time in which the page's threads were busy."""
    facts: FunctionFacts

    @property
    def text(self) -> str:
        """The function in one sentence."""
        name = f", {self.name}" if self.name else ""
        said = f"function {self.index}{name}: {self.share:.0%} of the time"
        live, spills = self.facts.live_vectors, self.facts.spills
        if live is not None and spills:
            changed = V8_VECTORS + spills
            of_them = "" if changed == live else f", {changed} of them changed in a loop,"
            verb = "spills" if spills == 1 else "spill"
            return (
                f"{said}, {live} live vectors{of_them} on {V8_VECTORS} registers: {spills} {verb}"
            )
        if live is not None and live > V8_VECTORS:
            return f"{said}, {live} live vectors, but loops change no more than {V8_VECTORS}"
        if live is not None:
            return f"{said}, {live} live vectors, which fit the {V8_VECTORS} registers"
        vectors = "" if self.facts.simd else ", no vector instructions"
        loops = f"{self.facts.loops} loop{'' if self.facts.loops == 1 else 's'}"
        return f"{said}, {self.facts.bytes:,} bytes, {loops}{vectors}"

    def to_json(self) -> dict[str, Any]:
        facts = self.facts
        return {
            "module": self.module,
            "index": self.index,
            "name": self.name,
            "self_ms": round(self.self_ms, 3),
            "total_ms": round(self.total_ms, 3),
            "share": round(self.share, 5),
            **{
                key: getattr(facts, key)
                for key in ("bytes", "blocks", "loops", "simd", "live_vectors", "spills")
            },
            "text": self.text,
        }


@dataclass(frozen=True)
class Hotspots:
    """A sampled page."""

    browser: str
    functions: tuple[Hotspot, ...]
    """The busiest first."""
    busy_ms: float
    """Of all threads together."""
    parts_ms: Mapping[str, float]
    """The same by what ran: ``wasm``, ``javascript``, ``engine`` and ``garbage collection``."""
    threads: int
    """Pages and workers that were seen busy."""
    modules: Mapping[str, int]
    """Bytes of each Wasm module, by its address."""

    def to_json(self) -> dict[str, Any]:
        return {
            "browser": self.browser,
            "busy_ms": round(self.busy_ms, 3),
            "parts_ms": {part: round(ms, 3) for part, ms in self.parts_ms.items()},
            "threads": self.threads,
            "modules": dict(self.modules),
            "functions": [f.to_json() for f in self.functions],
        }
