"""The verbs ``serve`` and ``check``: a bundle on a web server."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from nnjit_studio.cli.common import JSON, answer, note
from nnjit_studio.cli.verbs import PATH, argument, option, verb
from nnjit_studio.doctor.deployment import hosts, rules
from nnjit_studio.doctor.deployment import server as static
from nnjit_studio.doctor.deployment.visit import visit


@verb()
def serve(
    bundle: Path = argument(type=PATH),
    port: int = option(
        8000, "Of the address on this machine; 0 takes a free one.", type=click.IntRange(0, 65535)
    ),
) -> None:
    """Serve BUNDLE on this machine with the headers that a deployment needs."""
    with static.unpacked(bundle) as folder:
        static.serve(folder, port, note)


@verb()
def check(
    url: str = argument(),
    page: str = option("", "Address of the page that uses the bundle; its own index.html without."),
    host: str = option(
        "", "Print the header lines for this host.", type=click.Choice(["", *hosts.header_lines()])
    ),
    insecure: bool = option(False, "Accept any TLS certificate."),
    as_json: bool = JSON,
) -> None:
    """Check a deployed bundle at URL: its files, their types, headers, compression and caching.

    Requests go to that server and to the page's, and nowhere else. Ends with 1 when something
    is broken.
    """
    found = rules.findings(visit(url, page, verify=not insecure))
    text = "\n".join(f"{f.severity}: {f.found} {f.effect}\n  {f.next_step}" for f in found)
    lines = f"\n\n{hosts.header_lines()[host]}" if host else ""
    answer(
        as_json,
        {"ok": not found, "findings": [asdict(f) for f in found]},
        (text or "Nothing wrong was found.") + lines,
    )
    if any(f.severity == rules.BROKEN for f in found):
        sys.exit(1)
