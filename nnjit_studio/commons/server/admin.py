"""The operator's page: tables and charts, in the Studio's look, without any script."""

from __future__ import annotations

import base64
import binascii
import hmac
import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from importlib.resources import files

import jinja2

from nnjit_studio.commons.report.document import Place
from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import Belief, believe
from nnjit_studio.commons.rule.residuals import weights_of
from nnjit_studio.commons.server.counting import DAY_S
from nnjit_studio.commons.server.store import Store

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_DAYS, _ROWS = 30, 50


@dataclass(frozen=True)
class KeyRow:
    """One key with what the rule says of it; ``belief`` is None below five sources."""

    place: Place
    sources: int
    belief: Belief | None


@dataclass(frozen=True)
class SourceRow:
    """One source: its ballots, and the weight that residuals left them on average."""

    source: str
    ballots: int
    weight: float


def allowed(header: str, token: str) -> bool:
    """Whether an Authorization header holds the token, as Basic password or as Bearer."""
    scheme, _, given = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.encode(), token.encode())


def rows_of(store: Store) -> tuple[list[KeyRow], list[SourceRow]]:
    """Every key with its answer, the most reported first; sources, the least trusted first."""
    by_key: dict[Place, list[Ballot]] = defaultdict(list)
    for place, ballot in store.everything():
        by_key[place].append(ballot)
    kept: dict[str, list[float]] = defaultdict(list)
    keys = []
    for place, ballots in by_key.items():
        keys.append(KeyRow(place, len({b.source for b in ballots}), believe(ballots)))
        for ballot, weight in zip(ballots, weights_of(ballots), strict=True):
            kept[ballot.source].append(weight)
    sources = [SourceRow(s, len(w), sum(w) / len(w)) for s, w in kept.items()]
    keys.sort(key=lambda row: -row.sources)
    sources.sort(key=lambda row: row.weight)
    return keys, sources


def page(store: Store, now: int) -> str:
    """The page as HTML."""
    keys, sources = rows_of(store)
    gains = [row.belief.best[0].speedup for row in keys if row.belief and row.belief.best]
    days = dict(store.by_day(_DAYS, now))
    last = now // DAY_S
    counts = [(day, days.get(day, 0)) for day in range(last - _DAYS + 1, last + 1)]
    most = max(1, *(count for _, count in counts))
    bars = [
        {"day": _date(day), "count": count, "height": round(60 * count / most, 1), "x": 12 * i}
        for i, (day, count) in enumerate(counts)
    ]
    return _template().render(
        counts=store.counts(),
        published=sum(1 for row in keys if row.belief and row.belief.best),
        gain=math.exp(sum(map(math.log, gains)) / len(gains)) if gains else None,
        bars=bars,
        keys=keys[:_ROWS],
        sources=sources[:_ROWS],
    )


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, timezone.utc).date().isoformat()


@cache
def style() -> str:
    """The Studio's tokens and the page's few rules."""
    resources = files("nnjit_studio.resources")
    tokens = resources.joinpath("sdk/tokens.css").read_text("utf-8")
    return tokens + resources.joinpath("commons/admin.css").read_text("utf-8")


@cache
def _template() -> jinja2.Template:
    text = files("nnjit_studio.resources").joinpath("commons/admin.html.j2").read_text("utf-8")
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(text)
