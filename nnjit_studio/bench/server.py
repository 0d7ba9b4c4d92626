"""The server of a benchmark's page: the page's files, the peers' files, and the page's reports.

Apart from the hub, because the peers want what the hub forbids: workers made
from blobs, and files of ``node_modules``. It lives as long as one benchmark.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.hub.hub import listening_socket, make_server
from nnjit_studio.engine.hub.web import ISOLATION, MIME_TYPES
from nnjit_studio.errors import PageError

_MIME_TYPES = {**MIME_TYPES, ".mjs": MIME_TYPES[".js"]}
_HEADERS = {
    **ISOLATION,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval' 'unsafe-eval'; "
        "connect-src 'self' blob: data:; worker-src 'self' blob:; style-src 'self'"
    ),
}


class BenchServer:
    """Serves one benchmark page on 127.0.0.1, and collects what it posts.

    Parameters
    ----------
    roots
        Folder of each first part of a path, such as ``files`` or ``node_modules``.

    Attributes
    ----------
    uploads
        What the page posted, by name.
    done
        The page's last message, after :meth:`rows`.
    """

    def __init__(self, roots: dict[str, Path]) -> None:
        package = files("nnjit_studio.resources")
        self._roots = {
            **{
                name: Path(str(package / name))
                for name in ("bench", "engine", "offload", "sdk", "studio")
            },
            **roots,
        }
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._socket = listening_socket()
        self._host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._token = secrets.token_urlsafe(24)
        self.uploads: dict[str, bytes] = {}
        self.done: dict[str, Any] = {}
        routes = [
            Route(f"/{self._token}/report", self._report, methods=["POST"]),
            Route(f"/{self._token}/upload/{{name}}", self._upload, methods=["POST"]),
            Route(f"/{self._token}/{{root}}/{{path:path}}", self._file),
        ]
        app = Starlette(routes=routes)
        app.add_middleware(BaseHTTPMiddleware, dispatch=self._guard)
        self._server = make_server(app)
        self._thread = threading.Thread(target=self._run, name="nnjit-bench-server", daemon=True)

    def url(self, page: str) -> str:
        """Address of a page of ``resources/bench``; it holds a token."""
        return f"http://{self._host}/{self._token}/bench/{page}"

    def next_message(self, timeout_s: float) -> dict[str, Any]:
        """The page's next report.

        Raises
        ------
        PageError
            When none comes in time, or :meth:`fail` was called.
        """
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            raise PageError(
                f"The benchmark page said nothing for {timeout_s:.0f} s.",
                "Run it again with fewer --shapes.",
            ) from None
        if message["type"] == "error":
            raise PageError(message["error"], message.get("hint", ""))
        return message

    def rows(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """The page's ``row`` messages, until it is done; ``timeout_s`` between two messages."""
        while (message := self.next_message(timeout_s))["type"] != "done":
            if message["type"] == "row":
                yield message
        self.done = message

    def fail(self, reason: str) -> None:
        """Make whoever waits in :meth:`next_message` raise."""
        self._messages.put({"type": "error", "error": reason})

    def __enter__(self) -> BenchServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    async def _guard(
        self, request: Request, answer: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.headers.get("host") != self._host:
            return PlainTextResponse("Another host was asked for.", 403)
        response = await answer(request)
        response.headers.update(_HEADERS)
        return response

    async def _report(self, request: Request) -> Response:
        self._messages.put(await request.json())
        return Response(status_code=204)

    async def _upload(self, request: Request) -> Response:
        self.uploads[request.path_params["name"]] = await request.body()
        return Response(status_code=204)

    async def _file(self, request: Request) -> Response:
        root = self._roots.get(request.path_params["root"])
        if root is not None:
            path = (root / request.path_params["path"]).resolve()
            if path.is_relative_to(root.resolve()) and path.is_file():
                media = _MIME_TYPES.get(path.suffix, "application/octet-stream")
                return FileResponse(path, media_type=media)
        return PlainTextResponse("There is no such file.", 404)


def serve(options: BenchOptions) -> BenchServer:
    """A server of the options' folder and of the peers' packages."""
    modules = {"node_modules": options.node_modules} if options.node_modules else {}
    return BenchServer({"files": options.folder, **modules})


@contextmanager
def visit(
    server: BenchServer, page: str, options: BenchOptions
) -> Iterator[browsers.RunningBrowser]:
    """Open a page of ``resources/bench`` in a new browser.

    Raises
    ------
    TargetError
        When the browser is not there, or does not start.
    """
    with browsers.launch(
        browsers.find(options.target),
        server.url(page),
        options.no_sandbox,
        on_exit=server.fail,
        gpu=options.gpu,
    ) as running:
        yield running
