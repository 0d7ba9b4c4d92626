"""The server of a page that runs other people's libraries: files, reports, commands.

Apart from the hub, because those libraries want what the hub forbids: workers made
from blobs, and files of ``node_modules``. It lives as long as one job.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from nnjit_studio.engine.hub.hub import listening_socket, make_server
from nnjit_studio.engine.hub.web import ISOLATION, MIME_TYPES
from nnjit_studio.errors import PageError
from nnjit_studio.support.stopping import ended_by_stop

_MIME_TYPES = {**MIME_TYPES, ".mjs": MIME_TYPES[".js"]}
_HEADERS = {
    **ISOLATION,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval' 'unsafe-eval'; "
        "connect-src 'self' blob: data:; worker-src 'self' blob:; frame-src 'self'; "
        "style-src 'self'"
    ),
}


class PageServer:
    """Serves one page on 127.0.0.1, collects what it posts, and has it do what is asked.

    Parameters
    ----------
    roots
        Folder of each first part of a path, such as ``files`` or ``node_modules``.

    Attributes
    ----------
    uploads
        What the page posted, by name.
    served
        Addresses below the token that were asked for, and the files that answered them.
    done
        The page's last message, after :meth:`rows`.
    """

    def __init__(self, roots: dict[str, Path]) -> None:
        package = files("nnjit_studio.resources")
        self._roots = {
            **{
                name: Path(str(package / name))
                for name in ("bench", "engine", "live", "offload", "sdk", "studio")
            },
            **roots,
        }
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self._socket = listening_socket()
        self._host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._token = secrets.token_urlsafe(24)
        self.uploads: dict[str, bytes] = {}
        self.served: list[tuple[str, Path]] = []
        self.done: dict[str, Any] = {}
        routes = [
            Route(f"/{self._token}/report", self._report, methods=["POST"]),
            Route(f"/{self._token}/command", self._command),
            Route(f"/{self._token}/upload/{{name:path}}", self._upload, methods=["POST"]),
            Route(f"/{self._token}/{{root}}/{{path:path}}", self._file),
        ]
        app = Starlette(routes=routes)
        app.add_middleware(BaseHTTPMiddleware, dispatch=self._guard)
        self._server = make_server(app)
        self._thread = threading.Thread(target=self._run, name="nnjit-bench-server", daemon=True)

    def url(self, page: str, room: str = "bench") -> str:
        """Address of a page of a folder of ``resources``; it holds a token."""
        return f"http://{self._host}/{self._token}/{room}/{page}"

    def next_message(self, timeout_s: float) -> dict[str, Any]:
        """The page's next report.

        Raises
        ------
        PageError
            When none comes in time, or :meth:`fail` was called.
        """
        message = self.message_within(timeout_s)
        if message is None:
            raise PageError(
                f"The page said nothing for {timeout_s:.0f} s.",
                "Run it again with less work.",
            )
        return message

    def message_within(self, timeout_s: float) -> dict[str, Any] | None:
        """The page's next report; None when none comes in time.

        Raises
        ------
        PageError
            When the page reports an error, or :meth:`fail` was called.
        """
        try:
            with ended_by_stop(lambda: self.fail("It was stopped.")):
                message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if message["type"] == "error":
            raise PageError(message["error"], message.get("hint", ""))
        return message

    def rows(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """The page's ``row`` messages, until it is done; ``timeout_s`` between two messages."""
        while (message := self.next_message(timeout_s))["type"] != "done":
            if message["type"] == "row":
                yield message
        self.done = message

    def ask(self, command: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Have a page that waits for commands do something; its answer.

        Raises
        ------
        PageError
            As :meth:`next_message`.
        """
        self._commands.put(dict(command))
        return self.next_message(timeout_s)

    def fail(self, reason: str) -> None:
        """Make whoever waits in :meth:`next_message` raise."""
        self._messages.put({"type": "error", "error": reason})

    def __enter__(self) -> PageServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._commands.put({"do": "end"})
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

    async def _command(self, request: Request) -> Response:
        """The next command, whenever it comes; the end ends the wait of a page that left too."""
        command = await asyncio.to_thread(self._commands.get)
        if command["do"] == "end":
            self._commands.put(command)
        return JSONResponse(command)

    async def _upload(self, request: Request) -> Response:
        self.uploads[request.path_params["name"]] = await request.body()
        return Response(status_code=204)

    async def _file(self, request: Request) -> Response:
        root = self._roots.get(request.path_params["root"])
        if root is not None:
            path = (root / request.path_params["path"]).resolve()
            if path.is_relative_to(root.resolve()) and path.is_file():
                address = f"{request.path_params['root']}/{request.path_params['path']}"
                self.served.append((address, path))
                media = _MIME_TYPES.get(path.suffix, "application/octet-stream")
                return FileResponse(path, media_type=media)
        return PlainTextResponse("There is no such file.", 404)
