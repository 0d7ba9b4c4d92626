"""A report before it is sent: the very bytes, and in plain words what they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from nnjit_studio.commons.client.findings import findings_of
from nnjit_studio.commons.client.sharing import Sharing
from nnjit_studio.commons.client.web import send
from nnjit_studio.records import DeviceProfile, TuningRecord

CONSENT = """\
{line} is all that would be sent to {server}, byte for byte: which kernels ran, on which
kind of processor and browser, with which settings, in how many milliseconds; and the signature of a
key that was made for this alone. It has no code, weights, data, or name of a model, person or
machine. Sizes of kernels can betray a private model to who runs the server. The server also sees
your network address. {how}"""


@dataclass(frozen=True)
class Offer:
    """A report that was shown and not sent yet."""

    server: str
    data: bytes
    created: int
    """Seconds since 1970."""


def user_sharing() -> Sharing:
    """The switch, key and log of this user."""
    return Sharing(Path(platformdirs.user_data_dir("nnjit-studio", appauthor=False)) / "commons")


def offer(
    own: Sharing, server: str, records: Sequence[TuningRecord], host: DeviceProfile, now: int
) -> Offer:
    """What would travel to a server now; nothing is sent.

    Raises
    ------
    CommonsError
        When sharing is switched off, or there is nothing to tell.
    """
    server = server.rstrip("/")
    return Offer(server, own.prepare(server, findings_of(records, host), now), now)


def accept(own: Sharing, offered: Offer) -> bool:
    """Send what was shown, noted in the log before it leaves; whether the server had it not yet.

    Raises
    ------
    CommonsError
        With the server's sentence where it refuses, or when sharing was switched off meanwhile.
    """
    own.check_on()
    own.note(offered.server, offered.data, offered.created)
    return send(offered.server, offered.data)
