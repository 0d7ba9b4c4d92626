"""A verdict: what was measured of a model in each engine, and what may be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from nnjit_studio.verdict.figures import Interval

BUSY_RATE = 0.9
"""Below this share of the sentinel's usual rate the machine is busy: figures are rough."""
LEAST_RATE = 0.6
"""Below it nothing is said of a ratio."""
DIFFERENT = 0.1
"""Outputs further apart, as a share of the largest value, are not the same computation."""
LABELS = {
    "ort": "ONNX Runtime Web",
    "turbo": "its turbo module",
    "untuned": "ours, untuned",
    "tuned": "ours, tuned",
}
PEERS = ("ort",)
"""Of the rows, those that are not ours."""


@dataclass(frozen=True)
class Row:
    """One engine; None is what is not known yet, or cannot be."""

    who: str
    """``ort``, ``turbo``, ``untuned`` or ``tuned``."""
    ms: Interval | None = None
    """Of one inference."""
    memory_mib: float | None = None
    """Of WebAssembly memory."""
    cold_ms: float | None = None
    """From the address to the first output, in a new page."""
    shipped_bytes: int | None = None
    """Compressed, without the weights: code, kernels, plan."""
    max_rel_err: float | None = None
    """Of the outputs against the first peer's; native ONNX Runtime's where ours is absent."""
    problem: str = ""
    """Why this engine does not run the model."""

    @property
    def label(self) -> str:
        return LABELS[self.who]

    def to_json(self) -> dict[str, Any]:
        made = {**vars(self), "ms": self.ms.to_json() if self.ms else None}
        return made if self.problem else {k: v for k, v in made.items() if k != "problem"}


@dataclass(frozen=True)
class Verdict:
    """Of one model, on one machine, in one browser, while measuring and after it."""

    model: str
    """Name of the file."""
    path: str
    rows: tuple[Row, ...]
    """Peers first, then ours; no row ``tuned`` where nothing is tuned."""
    ratios: Mapping[str, Interval] = field(default_factory=dict)
    """By peer: how much faster ours is, tuned if it is."""
    gain: Interval | None = None
    """How much faster tuned is than untuned."""
    rate: float = 1.0
    """Of the sentinel, as a share of its usual rate."""
    sentinel_ms: float = 0.0
    """Of the sentinel when nothing disturbed it."""
    pairs: int = 0
    wanted: int = 0
    """Pairs that may be measured at most."""
    phase: str = ""
    """What is being done; empty at the end."""
    absent: str = ""
    """Why our engine does not run the model at all; its rows are not there then."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of the peers that are installed."""
    threads: int = 1
    browser: str = ""
    created: str = ""
    """ISO 8601, UTC."""

    def row(self, who: str) -> Row | None:
        return next((row for row in self.rows if row.who == who), None)

    @property
    def peer(self) -> Row | None:
        """The engine that ours is compared with."""
        return next((row for row in self.rows if row.who in PEERS), None)

    @property
    def ours(self) -> Row | None:
        """Tuned if it is, else untuned; where our engine is absent, the peer's turbo module."""
        return self.own or self.row("turbo")

    @property
    def own(self) -> Row | None:
        """Our engine's, tuned if it is; None where it does not run the model."""
        return self.row("tuned") or self.row("untuned")

    @property
    def ratio(self) -> Interval | None:
        """Over the peer, where one may be stated."""
        peer = self.peer
        found = self.ratios.get(peer.who) if peer else None
        return found if self.rate >= LEAST_RATE and self.same else None

    @property
    def same(self) -> bool:
        """Whether the outputs agree as far as two ways of rounding may."""
        error = self.ours.max_rel_err if self.ours else None
        return error is None or error <= DIFFERENT

    @property
    def busy(self) -> bool:
        return self.rate < BUSY_RATE

    @property
    def told_apart(self) -> bool:
        """Whether the interval of a ratio that may be stated excludes 1."""
        return self.ratio is not None and not self.ratio.holds_1

    @property
    def state(self) -> str:
        """``measuring``, ``no peer``, ``peer alone``, ``refused``, ``different``, ``busy``, ``few
        pairs``, ``not told apart``, ``faster`` or ``slower``: what a headline follows.
        """
        if self.phase:
            return "measuring"
        if self.peer is None or not self.versions:
            return "no peer"
        if self.absent and self.peer.ms is not None and self.ours is None:
            return "peer alone"
        if self.peer.problem or self.ours is None or self.ours.problem:
            return "refused"
        if not self.same:
            return "different"
        if self.rate < LEAST_RATE:
            return "busy"
        if self.ratio is None:
            return "few pairs"
        if self.ratio.holds_1:
            return "not told apart"
        return "faster" if self.ratio.low > 1 else "slower"

    def to_json(self) -> dict[str, Any]:
        """The document of ``nnjit compare``; see :func:`from_json`."""
        stated = {name: self.ratio.median if self.ratio else None for name in self.ratios}
        return {
            "ok": not self.absent,
            **{k: v for k, v in vars(self).items() if k not in ("ratios", "gain", "rows")},
            "versions": dict(self.versions),
            "rows": [row.to_json() for row in self.rows],
            "ratio": stated,
            "intervals": {name: found.to_json() for name, found in self.ratios.items()},
            "gain": self.gain.to_json() if self.gain else None,
            "told_apart": self.told_apart,
            "state": self.state,
        }


def from_json(data: Mapping[str, Any]) -> Verdict:
    """A verdict that was written by :meth:`Verdict.to_json`.

    Raises
    ------
    KeyError, TypeError, ValueError
        Of anything else.
    """
    return msgspec.convert({**data, "ratios": data["intervals"]}, Verdict)


def with_row(verdict: Verdict, row: Row) -> Verdict:
    """The verdict with this row in the place of the one of that name."""
    rows = tuple(row if old.who == row.who else old for old in verdict.rows)
    return replace(verdict, rows=rows)
