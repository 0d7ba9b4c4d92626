"""Measuring a verdict: sessions in turns in one page, then each from a cold start."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import BugError, PageError, UserError
from nnjit_studio.verdict.case import Case, shipped_bytes, uploaded, worst_error
from nnjit_studio.verdict.figures import median_interval, paired_ratio
from nnjit_studio.verdict.result import LABELS, PEERS, Row, Verdict, with_row

PAGE = "models.html"
POLICY = RoundsPolicy(rounds=24, min_sample_ms=20.0, warmup_ms=400.0, max_warmup_ms=3000.0)
OPENING_TIMEOUT_S = 180.0
"""Of one session, with its first run."""
POLL_S = 0.2
REFUSAL_LENGTH = 200


class Visits(Protocol):
    """Opens pages, each in a browser that has none of it in its caches."""

    def visit(self, server: PageServer, page: str) -> AbstractContextManager[object]:
        """Open a page of ``resources/bench``; it is closed at the end of the block."""


@dataclass(frozen=True)
class Effort:
    """How long a verdict takes at most."""

    seconds: float = 8.0
    """Of the rounds."""
    cold_rounds: int = 1
    policy: RoundsPolicy = POLICY


def never() -> bool:
    """No one cancels."""
    return False


def measure(
    case: Case,
    begun: Verdict,
    node_modules: Path | None,
    visits: Visits,
    effort: Effort,
    cancelled: Callable[[], bool] = never,
) -> Iterator[Verdict]:
    """What is known after each round, then after each cold start; the last has no phase.

    Parameters
    ----------
    begun
        The facts that are known before: a row for each entry of the case. Its ``sentinel_ms``
        is what is usual on this machine, 0 where that is not known.

    Raises
    ------
    TargetError, PageError
        When the page does not come or fails.
    UserError
        When it was cancelled.
    """
    (case.folder / "job.json").write_text(json.dumps(case.job(effort.policy, effort.seconds, True)))
    roots = {"files": case.folder} | ({"node_modules": node_modules} if node_modules else {})
    verdict = replace(begun, wanted=effort.policy.rounds)
    with PageServer(roots) as server:
        with visits.visit(server, PAGE):
            for message in messages(server, "row", cancelled):
                verdict = _noted(verdict, case, server, message, begun.sentinel_ms)
                yield verdict
        for name in _running(verdict):
            yield replace(verdict, phase=f"cold start of {LABELS[name]}")
            verdict = _with_cold_start(verdict, server, visits, name, effort, cancelled)
    yield replace(verdict, phase="")


def messages(
    server: PageServer, last: str, cancelled: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """Reports of the page up to the one of this type."""
    while True:
        limit_s = time.monotonic() + OPENING_TIMEOUT_S
        while (message := server.message_within(POLL_S)) is None:
            if cancelled():
                raise UserError("The comparison was cancelled.")
            if time.monotonic() > limit_s:
                raise PageError(
                    f"The page said nothing for {OPENING_TIMEOUT_S:.0f} s.",
                    "The model may be too large to be held by two engines at once.",
                )
        yield message
        if message["type"] == last:
            return


def _noted(
    verdict: Verdict, case: Case, server: PageServer, message: Mapping[str, Any], usual_ms: float
) -> Verdict:
    """The verdict with what a report tells."""
    if message["type"] == "opening":
        return replace(verdict, phase=f"opening {LABELS[message['name']]}")
    samples = {name: list(map(float, ms)) for name, ms in message["samples_ms"].items()}
    watch = samples.pop("sentinel")
    facts, refused = message["facts"], message["refused"]
    for entry in case.entries:
        if entry.name in refused:
            row = Row(entry.name, problem=" ".join(refused[entry.name].split())[:REFUSAL_LENGTH])
        else:
            row = replace(
                verdict.row(entry.name) or Row(entry.name),
                ms=median_interval(samples[entry.name]),
                memory_mib=facts[entry.name]["memory_bytes"] / 2**20,
            )
        verdict = with_row(verdict, row)
    least = min(watch)
    usual = min(least, usual_ms) if usual_ms else least
    verdict = replace(
        verdict,
        phase="measuring",
        pairs=len(watch),
        sentinel_ms=least,
        rate=usual / statistics.median(watch) if usual > 0 else 1.0,
        browser=message["user_agent"],
    )
    verdict = _with_ratios(verdict, samples)
    return _with_errors(verdict, case, server) if message["type"] == "row" else verdict


def _with_ratios(verdict: Verdict, samples: Mapping[str, list[float]]) -> Verdict:
    ours = verdict.ours
    if ours is None or ours.who not in samples:
        return verdict
    found = {
        name: paired_ratio(samples[ours.who], samples[name]) for name in PEERS if name in samples
    }
    gain = None
    if {"tuned", "untuned"} <= set(samples):
        gain = paired_ratio(samples["tuned"], samples["untuned"])
    return replace(verdict, ratios={n: r for n, r in found.items() if r is not None}, gain=gain)


def _with_errors(verdict: Verdict, case: Case, server: PageServer) -> Verdict:
    """The rows with how far their outputs are from the reference, or ours from the peer's."""
    peer, reference = verdict.peer, case.reference
    if not case.outputs or not (reference or (peer and peer.ms)):
        return verdict
    for row in verdict.rows:
        if row.ms is None or (row.who in PEERS and not reference):
            continue
        try:
            mine = uploaded(case.outputs, server.uploads, row.who)
            theirs = reference or uploaded(case.outputs, server.uploads, PEERS[0])
            error = worst_error(mine, theirs)
        except BugError as e:
            verdict = with_row(verdict, replace(row, problem=e.error))
        else:
            verdict = with_row(verdict, replace(row, max_rel_err=error))
    return verdict


def _running(verdict: Verdict) -> list[str]:
    return [row.who for row in verdict.rows if row.ms is not None]


def _with_cold_start(
    verdict: Verdict,
    server: PageServer,
    visits: Visits,
    name: str,
    effort: Effort,
    cancelled: Callable[[], bool],
) -> Verdict:
    """The row with its first outputs in new pages, and what those loaded."""
    times = []
    for _ in range(effort.cold_rounds):
        server.served.clear()
        with visits.visit(server, f"{PAGE}?cold={name}"):
            *_, message = messages(server, "cold", cancelled)
        times.append(float(message["first_output_ms"]))
    row = verdict.row(name)
    assert row is not None
    if not times:
        return verdict
    shipped = shipped_bytes(server.served)
    return with_row(verdict, replace(row, cold_ms=statistics.median(times), shipped_bytes=shipped))
