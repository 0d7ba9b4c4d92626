"""A bundle on a server of this machine, with the headers that a deployment needs."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from nnjit_studio.bundle.manifest import MANIFEST_FILE
from nnjit_studio.bundle.reader import verify_bundle
from nnjit_studio.doctor.deployment.hosts import HEADERS
from nnjit_studio.engine.hub.web import MIME_TYPES
from nnjit_studio.errors import UserError


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        kind = MIME_TYPES.get(Path(path).suffix)
        response.headers.update({**HEADERS, **({"Content-Type": kind} if kind else {})})
        return response


def application(folder: Path) -> Starlette:
    """A folder as a static site; texts are compressed, parts of files are answered."""
    return Starlette(
        routes=[Mount("/", _Files(directory=folder, html=True))],
        middleware=[Middleware(GZipMiddleware, minimum_size=500)],
    )


@contextmanager
def unpacked(bundle: Path) -> Iterator[Path]:
    """The folder of a bundle: itself, or its verified zip unpacked for as long as this lasts.

    Raises
    ------
    UserError
        When it is neither a folder with a manifest nor a bundle whose files are all right.
    """
    if bundle.is_dir():
        if not (bundle / MANIFEST_FILE).is_file():
            raise UserError(
                f"{bundle} holds no {MANIFEST_FILE}.",
                "Give the folder of an unpacked bundle, or its zip.",
            )
        yield bundle
        return
    report = verify_bundle(bundle)
    if not report.ok:
        raise UserError(f"{bundle} is damaged: {report.problems[0]}", "Export it again.")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)
        yield Path(folder)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of 127.0.0.1 for as long as this lasts; yields its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = _server(folder)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def _server(folder: Path) -> uvicorn.Server:
    config = uvicorn.Config(
        application(folder), log_config=None, access_log=False, server_header=False
    )
    return uvicorn.Server(config)


def serve(folder: Path, port: int, said: Callable[[str], None]) -> None:
    """Serve a folder on 127.0.0.1 until the user interrupts; ``said`` gets its address.

    Raises
    ------
    UserError
        When the port is taken.
    """
    with socket.socket() as listener:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as e:
            raise UserError(
                f"Port {port} cannot be used: {e}.", "Choose another with --port."
            ) from e
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        said(f"{address} (Ctrl+C ends it)")
        _server(folder).run(sockets=[listener])
