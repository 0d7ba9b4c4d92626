"""The hub's web application: the page's files and its WebSockets, and who may ask for them.

Access:

- every request carries the exact Host ``127.0.0.1:PORT``, which stops DNS
  rebinding;
- the page ``/`` and the WebSockets ``/link`` and ``/gpu`` carry the token; the
  WebSockets also the exact Origin;
- a file of the page carries no token (module imports and workers would have
  to repeat it); it holds nothing secret. Where a browser says who asks
  (Origin, Sec-Fetch-Site), that must be the page itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

MIME_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".otf": "font/otf",
    ".ttf": "font/ttf",
}
"""Suffix of each kind of file that is served; no other is."""

_FILE_PATH = re.compile(r"(engine|fonts|sdk|studio)(/[a-z]+)*/[a-z_]+(\.[a-z]+)")
"""Of ``resources``: the engine, the page's own modules, and the look that bundles have too."""


ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Headers of pages: COOP and COEP make them cross-origin isolated, which shared memory and the
fine timer need."""


def security_headers(host: str, scheme: str = "ws") -> dict[str, str]:
    """Headers of every answer; ``host`` is ``127.0.0.1:PORT``, the scheme that of its sockets."""
    return {
        **ISOLATION,
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
            f"connect-src 'self' {scheme}://{host}; worker-src 'self'; img-src 'self'; "
            "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "Cache-Control": "no-store",
    }


ServeSocket = Callable[[WebSocket], Awaitable[None]]


def make_app(host: str, token: str, serve: ServeSocket, serve_gpu: ServeSocket) -> ASGIApp:
    """The application behind the hub; ``serve`` and ``serve_gpu`` get each WebSocket that may
    speak, of the page itself and of a GPU device.
    """

    async def page(request: Request) -> Response:
        return page_file("studio/index.html")

    async def part(request: Request) -> Response:
        return page_file(request.path_params["path"])

    routes = [
        Route("/", page),
        WebSocketRoute("/link", serve),
        WebSocketRoute("/gpu", serve_gpu),
        Route("/{path:path}", part),
    ]
    return _Guard(Router(routes, redirect_slashes=False), host, token)


def page_file(path: str) -> Response:
    """A file of the page, below ``resources``; 404 for any other."""
    match = _FILE_PATH.fullmatch(path)
    media_type = MIME_TYPES.get(match[3]) if match else None
    file = files("nnjit_studio.resources") / path
    if media_type is None or not file.is_file():
        return PlainTextResponse("There is no such file.", 404)
    return Response(file.read_bytes(), headers={"Content-Type": media_type})


def headed(send: Send, headers: Mapping[str, str]) -> Send:
    """A way to send that puts headers on each answer."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return sent


class _Guard:
    """Refuses what must not come in and puts the headers on every answer."""

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app = app
        self._host = host
        self._origin = f"http://{host}"
        self._token = token
        self._headers = security_headers(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._allows(scope):
            await self._app(scope, receive, headed(send, self._headers))
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).close()  # before accept: an HTTP 403
        else:
            refusal = PlainTextResponse("This address is for the page that the Studio opened.", 403)
            await refusal(scope, receive, headed(send, self._headers))

    def _allows(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        if headers.getlist("host") != [self._host]:
            return False
        if scope["type"] == "websocket":
            return headers.getlist("origin") == [self._origin] and self._has_token(scope)
        if scope["path"] == "/":
            return self._has_token(scope)
        return (
            headers.get("origin", self._origin) == self._origin
            and headers.get("sec-fetch-site", "same-origin") == "same-origin"
        )

    def _has_token(self, scope: Scope) -> bool:
        given = QueryParams(scope["query_string"]).getlist("token")
        return len(given) == 1 and secrets.compare_digest(given[0].encode(), self._token.encode())
