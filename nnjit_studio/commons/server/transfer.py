"""The commons as one file: JSON lines under a licence, out of one server and into another.

The first line is the header, each other line one ballot of a key that is published. Voters and
sources are hashed with a key that is made for the file and thrown away, so that two exports cannot
be joined.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from nnjit_studio.commons.report.checks import check_place, check_settings
from nnjit_studio.commons.report.document import Place
from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import FEWEST
from nnjit_studio.commons.server.counting import put_all
from nnjit_studio.commons.server.store import Store
from nnjit_studio.errors import CommonsError
from nnjit_studio.support.files import replacing

LICENCE = "CC0-1.0"
_HEADER = {"commons": 1, "licence": LICENCE}
_MOST_LINE = 16_384


def export_commons(store: Store, path: Path) -> int:
    """Write every ballot of published keys; how many."""
    salt, count = secrets.token_bytes(32), 0

    def hidden(name: str) -> str:
        return hmac.new(salt, name.encode(), hashlib.sha256).hexdigest()[:32]

    with replacing(path, "The commons") as part, part.open("w", encoding="utf-8") as file:
        file.write(json.dumps(_HEADER) + "\n")
        for place, group in groupby(store.everything(), key=lambda pair: pair[0]):
            ballots = [ballot for _, ballot in group]
            if len({b.source for b in ballots}) < FEWEST:
                continue
            for b in ballots:
                line = {
                    "place": msgspec.to_builtins(place),
                    "voter": hidden(b.voter),
                    "source": hidden(b.source),
                    "ranked": b.ranked,
                }
                file.write(json.dumps(line, allow_nan=False) + "\n")
                count += 1
    return count


def import_commons(store: Store, path: Path, now: int) -> int:
    """Add the ballots of a file; how many. The operator trusts the server that it is from.

    All of a file is taken or nothing of it. The same file again changes nothing.

    Raises
    ------
    CommonsError
        Naming the line that cannot be read.
    """
    count = 0
    with path.open("rb") as file, store.engine.begin() as connection:
        for number, line in enumerate(iter(lambda: file.readline(_MOST_LINE + 1), b""), 1):
            try:
                read = json.loads(line) if len(line) <= _MOST_LINE else None
                if number == 1:
                    if read != _HEADER:
                        raise ValueError
                    continue
                put_all(connection, [(*_ballot(read), now)])
            except (ValueError, KeyError, TypeError, RecursionError, CommonsError) as e:
                raise CommonsError(
                    f"Line {number} of {path.name} is none of a commons.", "Get the file again."
                ) from e
            count += 1
    return count


def _ballot(read: Any) -> tuple[Place, Ballot]:
    place = msgspec.convert(read["place"], Place)
    check_place(place)
    ranked = tuple((str(s), float(r)) for s, r in read["ranked"])
    if not 1 <= len(ranked) <= 5 or not all(0.001 < r < 1000 for _, r in ranked):
        raise ValueError("no ranked settings")
    for settings, _ in ranked:
        check_settings(settings, place.tier)
    names = [str(read[n]) for n in ("voter", "source")]
    if not all(len(n) == 32 and n.isalnum() for n in names):
        raise ValueError("no voter or source")
    return place, Ballot(names[0], names[1], place.device, ranked)
