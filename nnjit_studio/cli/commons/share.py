"""The verbs that share: `nnjit share send|on|off|log`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import platformdirs

from nnjit_studio.cli.common import JSON, answer, database_path, note, say
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import argument, option, verb
from nnjit_studio.commons.client import Sharing, findings_of
from nnjit_studio.commons.client import send as send_bytes
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import host_profile

DATABASE: Any = OPTIONS["database"]
CONSENT = """\
The line above is all that would be sent to {server}, byte for byte: which kernels ran, on which
kind of processor and browser, with which settings, in how many milliseconds; and the signature of a
key that was made for this alone. It has no code, weights, data, or name of a model, person or
machine. Sizes of kernels can betray a private model to who runs the server. The server also sees
your network address. `nnjit share log` shows what was sent, `nnjit share off` stops it."""


@click.group()
def share() -> None:
    """Share what this device found out with a server of the commons."""


def sharing() -> Sharing:
    """Of this user."""
    return Sharing(Path(platformdirs.user_data_dir("nnjit-studio", appauthor=False)) / "commons")


@verb("send")
def send(
    server: str = argument(),
    yes: bool = option(False, "Send without asking; what is sent is shown all the same."),
    database: Path | None = DATABASE,
    as_json: bool = JSON,
) -> None:
    """Show what would be sent to SERVER and, if you agree, send it."""
    server, own, now = server.rstrip("/"), sharing(), int(time.time())
    with KernelDatabase.open(database_path(database), read_only=True) as known:
        records = known.all_records(limit=10_000)
    data = own.prepare(server, findings_of(records, host_profile()), now)
    say(data.decode())
    note(CONSENT.format(server=server))
    if not yes and not click.confirm("Send it?", err=True):
        note("Nothing was sent.")
        return
    own.note(server, data, now)
    new = send_bytes(server, data)
    answer(as_json, {"ok": True, "new": new}, "sent" if new else "the server had it already")


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
