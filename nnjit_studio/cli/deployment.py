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
from nnjit_studio.doctor.deployment.drivers import installed
from nnjit_studio.doctor.deployment.visit import Site, visit
from nnjit_studio.doctor.deployment.visitors import LACKS, Visitor, table, visitors
from nnjit_studio.errors import UserError


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
    browsers: bool = option(
        False, "Open the page in each installed browser too, and with features off."
    ),
    insecure: bool = option(False, "Accept any TLS certificate."),
    as_json: bool = JSON,
) -> None:
    """Check a deployed bundle at URL: its files, their types, headers, compression and caching.

    Requests go to that server and to the page's, and nowhere else. Ends with 1 when something
    is broken, or a browser that lacks nothing gets no answer.
    """
    site = visit(url, page, verify=not insecure)
    found = rules.findings(site)
    seen = _visitors(site) if browsers else []
    text = "\n".join(f"{f.severity}: {f.found} {f.effect}\n  {f.next_step}" for f in found)
    lines = f"\n\n{hosts.header_lines()[host]}" if host else ""
    answer(
        as_json,
        {
            "ok": not found,
            "findings": [asdict(f) for f in found],
            **({"visitors": [asdict(v) for v in seen]} if browsers else {}),
        },
        (text or "Nothing wrong was found.") + (f"\n\n{table(seen)}" if browsers else "") + lines,
    )
    if any(v.error and not v.lacks for v in seen) or any(f.severity == rules.BROKEN for f in found):
        sys.exit(1)


def _visitors(site: Site) -> list[Visitor]:
    found = installed()
    if not found:
        raise UserError(
            "No browser was found on this machine.", "Install one, or leave out --browsers."
        )
    missing = {"chromium", "firefox", "webkit"} - {browser.kind for browser in found}
    if missing:
        note(f"Not installed, so not tried: {', '.join(sorted(missing))}.")

    def said(v: Visitor) -> None:
        got = v.error or f"first answer after {v.first_answer_s:.2f} s"
        note(f"{v.browser}, {LACKS[v.lacks]}: {got}")

    return visitors(site.manifest_url, site.page.url, found, on_visitor=said)
