"""The verbs that share: `nnjit share send|on|off|log`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.common import JSON, answer, database_path, note, say
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import argument, option, verb
from nnjit_studio.commons.client.consent import CONSENT, accept, offer, user_sharing
from nnjit_studio.commons.client.sharing import Sharing
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import host_profile
from nnjit_studio.records import TuningRecord

DATABASE: Any = OPTIONS["database"]
MOST_RECORDS = 10_000
"""The newest, of which a report is made."""
HOW = "`nnjit share log` shows what was sent, `nnjit share off` stops it."


@click.group()
def share() -> None:
    """Share what this device found out with a server of the commons."""


def sharing() -> Sharing:
    """Of this user."""
    return user_sharing()


@verb("send")
def send(
    server: str = argument(),
    yes: bool = option(False, "Send without asking; what is sent is shown all the same."),
    database: Path | None = DATABASE,
    as_json: bool = JSON,
) -> None:
    """Show what would be sent to SERVER and, if you agree, send it."""
    with KernelDatabase.open(database_path(database), read_only=True) as known:
        records = known.all_records(limit=MOST_RECORDS)
    new = share_records(server, records, yes)
    if new is not None:
        answer(as_json, {"ok": True, "new": new}, "sent" if new else "the server had it already")


def share_records(server: str, records: Sequence[TuningRecord], yes: bool) -> bool | None:
    """Show the bytes that would travel, ask, and send them.

    Returns
    -------
    bool or None
        Whether the server had them not yet; None where the user did not agree.

    Raises
    ------
    CommonsError
        When sharing is switched off, nothing can be told, or the server refuses.
    """
    own = sharing()
    offered = offer(own, server, records, host_profile(), int(time.time()))
    say(offered.data.decode())
    note(CONSENT.format(server=offered.server, line="The line above", how=HOW))
    if not yes and not click.confirm("Send it?", err=True):
        note("Nothing was sent.")
        return None
    return accept(own, offered)


@verb("off")
def off() -> None:
    """Send nothing any more."""
    sharing().switch(False)
    note("Sharing is off; nothing is sent.")


@verb("on")
def on() -> None:
    """Allow sharing again; each report still asks."""
    sharing().switch(True)
    note("Sharing is allowed; each report still asks.")


@verb("log")
def log(as_json: bool = JSON) -> None:
    """Every report that left this device, byte for byte."""
    sent = sharing().sent()
    answer(as_json, sent, "\n".join(json.dumps(entry) for entry in sent) or "Nothing was sent.")


for each in (send, off, on, log):
    share.add_command(each)
