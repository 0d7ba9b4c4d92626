"""Words and signs for candidates, the same in every dock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER, WON, shown_outcome
from nnjit_studio.space.lite_space import Verdict
from nnjit_studio.ui.state.jobs import running
from nnjit_studio.ui.state.workload import INCUMBENT, INVALID, MEASURING, NOT_TRIED, TIMED_OUT
from nnjit_studio.ui.widgets.tables import Column

GLYPHS = {
    INCUMBENT: "★", FASTER: "▲", SLOWER: "▼", NOT_TOLD_APART: "≈",
    "wrong": "✗", "impossible": "✗", "failed": "✗",
    "duplicate": "=", MEASURING: "…", NOT_TRIED: "·", "default": "○", INVALID: "✗",
    TIMED_OUT: "✗",
}  # fmt: skip
TONES = {
    INCUMBENT: "good", WON: "good", FASTER: "good",
    "wrong": "bad", "impossible": "bad", "failed": "bad", MEASURING: "accent",
    SLOWER: "muted", NOT_TOLD_APART: "muted", "duplicate": "muted", NOT_TRIED: "muted",
    INVALID: "bad", TIMED_OUT: "bad",
}  # fmt: skip
EXAMPLES = {
    "Wasm": "x0=8,y0=6,r0=4,x1=8,y1=6,r1=384,order=nm,pack=1",
    "WGSL": "x0=8,y0=8,r0=4,x1=64,y1=64,r1=16,split=1,vec=4",
}
"""Candidates by the language of the kernels."""
TILE_TIPS = {
    "x0": "columns of the inner tile", "y0": "rows of the inner tile",
    "r0": "unroll of the reduction", "x1": "columns of a block", "y1": "rows of a block",
    "r1": "depth of a reduction block",
}  # fmt: skip


def refusal(job: str) -> str:
    """The answer to a candidate that cannot be measured now, by the job that runs."""
    # A session without any refuses jobs at its end alone.
    return f"{running(job)}: wait, or stop it (Shift+F5)." if job else "The window is closing."


def rules_text(verdicts: Iterable[Verdict]) -> str:
    """Rules of the lite space with their answers."""
    return "; ".join(f"{v.rule.replace('_', ' ')}: {v.text}" for v in verdicts)


def state_column(width: int, tip: str = "") -> Column:
    """What became of a candidate, by the ``state`` of its row."""
    return Column(
        "state", _state, lambda s: f"{GLYPHS.get(s, ' ')} {s}", False, tip, width,
        lambda row: TONES.get(row.state, ""),
    )  # fmt: skip


def _state(row: Any) -> Any:
    return shown_outcome(row.state)
