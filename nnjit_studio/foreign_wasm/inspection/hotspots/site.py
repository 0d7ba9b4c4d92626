"""A folder served to one browser, as a page of its own that may use threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from nnjit_studio.engine.hub.hub import listening_socket, make_server
from nnjit_studio.engine.hub.web import ISOLATION, headed
from nnjit_studio.errors import UserError


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of the folder's ``index.html`` on 127.0.0.1.

    Raises
    ------
    UserError
        When the folder has none.
    """
    if not (folder / "index.html").is_file():
        raise UserError(
            f"The folder {str(folder)!r} has no index.html.",
            "Give the folder of a page, or the address of one on this machine.",
        )
    listener = listening_socket()
    port = listener.getsockname()[1]
    app = Starlette(routes=[Mount("/", StaticFiles(directory=folder, html=True))])
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1"])

    async def isolated(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, headed(send, ISOLATION))  # which shared memory needs

    server = make_server(isolated)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])), name="nnjit-site", daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
