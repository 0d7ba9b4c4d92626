"""The verbs of a server of the commons: `nnjit server start|export|import`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.common import JSON, answer, note
from nnjit_studio.cli.verbs import COUNT, FILE, FOLDER, argument, option, verb
from nnjit_studio.errors import UserError

DATABASE: Any = option(
    "sqlite:///commons.db", "URL: sqlite:///FILE or postgresql://USER@HOST/NAME."
)


@click.group()
def server() -> None:
    """Run a server of the commons, and move what it knows."""


@verb("start")
def start(
    database: str = DATABASE,
    host: str = option("127.0.0.1", "Address that it listens on."),
    port: int = option(8500, "Port that it listens on.", type=click.IntRange(1, 65535)),
    address: str = option("", "The server's address for devices, such as https://HOST."),
    admin_token: Path | None = option(
        None, "File with the token of the admin page; without it there is no such page.", type=FILE
    ),
    keep_days: int = option(365, "Days after which ballots are forgotten.", type=COUNT),
    proxy: str = option("", "Address of a reverse proxy whose X-Forwarded-For is believed."),
    certificate: Path | None = option(
        None,
        "File with its certificate chain for TLS; without it a proxy must bring TLS.",
        type=FILE,
    ),
    key: Path | None = option(None, "File with the certificate's private key.", type=FILE),
    compiling: int = option(
        0,
        "Processes that compile kernels for pages from settings; 0 is no such service.",
        flag="--compile",
        type=click.IntRange(0, 64),
    ),
    kernels: Path = option(Path("kernels"), "Folder of what they made.", type=FOLDER),
) -> None:
    """Serve the commons until stopped."""
    _needs_packages()
    from nnjit_studio.commons.server.app import ServerOptions
    from nnjit_studio.commons.server.run import run

    if (certificate is None) != (key is None):
        raise UserError(
            "TLS needs both a certificate and its key.", "Give --certificate and --key."
        )
    own = address or f"{'https' if certificate else 'http'}://{host}:{port}"
    options = ServerOptions(own, _token(admin_token), keep_days)
    note(f"Serving the commons for {own} from {database.split('@')[-1]}.")
    tls = (certificate, key) if certificate and key else None
    run(database, options, host, port, proxy, tls, (compiling, kernels) if compiling else None)


def _token(file: Path | None) -> str:
    token = file.read_text("utf-8").strip() if file else ""
    if file and len(token) < 16:
        raise UserError(
            f"The token in {file} is shorter than 16 characters.", "Write a longer one into it."
        )
    return token


@verb("export")
def export_file(
    output: Path = argument(type=FILE), database: str = DATABASE, as_json: bool = JSON
) -> None:
    """Write what is published to OUTPUT, JSON lines under CC0."""
    _needs_packages()
    from nnjit_studio.commons.server.store import Store
    from nnjit_studio.commons.server.transfer import export_commons

    count = export_commons(Store(database), output)
    answer(as_json, {"ok": True, "ballots": count}, f"wrote {count} ballots to {output}")


@verb("import")
def import_file(
    source: Path = argument(type=FILE), database: str = DATABASE, as_json: bool = JSON
) -> None:
    """Add the ballots of another server's export, which you trust."""
    _needs_packages()
    from nnjit_studio.commons.server.store import Store
    from nnjit_studio.commons.server.transfer import import_commons

    count = import_commons(Store(database), source, int(time.time()))
    answer(as_json, {"ok": True, "ballots": count}, f"added {count} ballots")


def _needs_packages() -> None:
    """Say what to install where the extra is missing."""
    try:
        import alembic  # noqa: F401
        import prometheus_client  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ImportError as e:
        raise UserError(
            f"The server needs the package {e.name!r}, which is not installed.",
            "Install it with `pip install 'nnjit-studio[server]'`.",
        ) from e


for each in (start, export_file, import_file):
    server.add_command(each)
