"""Running the server until it is told to stop."""

from __future__ import annotations

import uvicorn

from nnjit_studio.commons.server.app import ServerOptions, Service, application
from nnjit_studio.commons.server.store import Store


def run(database: str, options: ServerOptions, host: str, port: int, proxy: str = "") -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered first.

    Parameters
    ----------
    proxy
        Address of a reverse proxy whose ``X-Forwarded-For`` is believed; empty for none.
    """
    store = Store(database)
    try:
        config = uvicorn.Config(
            application(Service(store, options)),
            host=host,
            port=port,
            proxy_headers=bool(proxy),
            forwarded_allow_ips=proxy or None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=10,
        )
        uvicorn.Server(config).run()
    finally:
        store.close()
