"""Running the server until it is told to stop."""

from __future__ import annotations

import ssl
from pathlib import Path

import uvicorn

from nnjit_studio.commons.kernels.pool import Pool
from nnjit_studio.commons.kernels.shelf import Shelf
from nnjit_studio.commons.server.app import ServerOptions, Service, application
from nnjit_studio.commons.server.compiled import CompileService
from nnjit_studio.commons.server.store import Store
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.errors import UserError


def run(
    database: str,
    options: ServerOptions,
    host: str,
    port: int,
    proxy: str = "",
    tls: tuple[Path, Path] | None = None,
    compiling: tuple[int, Path] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered first.

    Parameters
    ----------
    proxy
        Address of a reverse proxy whose ``X-Forwarded-For`` is believed; empty for none.
    tls
        Files of the certificate chain and of its private key; None for plain HTTP.
    compiling
        Compile processes for pages, and the folder of what they made; None for no such service.

    Raises
    ------
    UserError
        Where the certificate and its key cannot be read, or are no pair.
    """
    if tls:
        _check_pair(*tls)
    store = Store(database)
    pool = Pool(Shelf(compiling[1], COMPILER_VERSION), compiling[0]) if compiling else None
    try:
        config = uvicorn.Config(
            application(Service(store, options), CompileService(pool) if pool else None),
            host=host,
            port=port,
            proxy_headers=bool(proxy),
            forwarded_allow_ips=proxy or None,
            ssl_certfile=tls[0] if tls else None,
            ssl_keyfile=tls[1] if tls else None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=10,
        )
        uvicorn.Server(config).run()
    finally:
        store.close()
        if pool:
            pool.close()


def _check_pair(certificate: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as e:
        raise UserError(
            f"{certificate} and {key} are no pair of certificate and key.",
            "Give two files in PEM, the key without a password.",
        ) from e
