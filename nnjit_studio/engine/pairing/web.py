"""What answers on the port for devices, and to whom.

Whoever reaches the port gets the page to join, its look, and the certificate of the local
authority. Files of the engine and the two sockets are for devices that have a token; there is
nothing else. Every request carries the exact Host, which stops DNS rebinding; what changes or
carries anything has the exact Origin too.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from nnjit_studio.engine.hub.web import headed, page_file, security_headers
from nnjit_studio.engine.pairing.known import KEPT_S, PairedDevice
from nnjit_studio.errors import UserError

COOKIE = "__Host-nnjit-device"
MAX_BODY_BYTES = 256
JOIN_PAGE, DEVICE_PAGE = "studio/devices/join.html", "studio/devices/device.html"
PUBLIC = ("studio/devices/join.js", "studio/devices/page.css", "studio/fonts.css")
"""With ``sdk`` stylesheets, the icon and ``fonts``, what the page to join is made of."""
AUTHORITY = "authority.crt"


class Gate(Protocol):
    """Who may come in, and what is done with those who did."""

    authority: bytes

    def join(self, code: str, user_agent: str, before: PairedDevice | None) -> str:
        """The token of a device that has the code; raises ``UserError``."""

    def known(self, token: str) -> PairedDevice | None:
        """Whose token it is."""

    def leave(self, device: PairedDevice) -> None:
        """The device goes, for good."""

    async def link(self, device: PairedDevice, socket: WebSocket) -> None:
        """Serve the socket for kernels."""

    async def status(self, device: PairedDevice, socket: WebSocket) -> None:
        """Serve the socket for progress and the device's state."""


class DeviceWeb:
    """The application on the port for devices; ``host`` is ``ADDRESS:PORT``."""

    def __init__(self, host: str, gate: Gate) -> None:
        self._host, self._origin, self._gate = host, f"https://{host}", gate
        self._headers = {
            **security_headers(host, "wss"),
            "Permissions-Policy": "camera=(), microphone=(), geolocation=(), usb=()",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return

        answer = await self._answer(Request(scope, receive))
        await answer(scope, receive, headed(send, self._headers))

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket, headers = WebSocket(scope, receive, send), Headers(scope=scope)
        mine = headers.getlist("host") == [self._host]
        mine = mine and headers.getlist("origin") == [self._origin]
        device = self._gate.known(socket.cookies.get(COOKIE, "")) if mine else None
        serve = {"/link": self._gate.link, "/status": self._gate.status}.get(scope["path"])
        if device is None or serve is None:
            await socket.close()  # before accept: an HTTP 403
        else:
            await serve(device, socket)

    async def _answer(self, request: Request) -> ASGIApp:
        if request.headers.getlist("host") != [self._host]:
            return _refused(
                403, "This address is for devices that join.", "Type it as it is shown."
            )
        path = request.url.path.removeprefix("/")
        device = self._gate.known(request.cookies.get(COOKIE, ""))
        if request.method == "POST":
            return await self._posted(request, path, device)
        if request.method != "GET":
            return _refused(405, "There is nothing to do so with.", "Open the page.")
        if path == "":
            return page_file(DEVICE_PAGE if device else JOIN_PAGE)
        if path == AUTHORITY:
            kind = {"Content-Type": "application/x-x509-ca-cert"}
            return Response(self._gate.authority, headers=kind)
        if not self._own(request):
            return _refused(403, "A file of the page is for the page alone.", "Open the page.")
        public = path in PUBLIC or path.startswith("fonts/")
        if device or public or path in ("sdk/style.css", "sdk/tokens.css", "sdk/icon.svg"):
            return page_file(path)
        return PlainTextResponse("There is no such file.", 404)

    def _own(self, request: Request) -> bool:
        """Whether the page itself asks, as far as the browser says."""
        return (
            request.headers.get("origin", self._origin) == self._origin
            and request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        )

    async def _posted(self, request: Request, path: str, device: PairedDevice | None) -> Response:
        if request.headers.getlist("origin") != [self._origin] or not self._own(request):
            return _refused(403, "Another page asks.", "Open the address that the Studio shows.")
        if path == "leave" and device is not None:
            self._gate.leave(device)
            left = JSONResponse({"ok": True})
            left.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
            return left
        if path != "join":
            return _refused(404, "There is nothing to do so with.", "Open the page.")
        try:
            code = _code(await _body(request))
            agent = request.headers.get("user-agent", "")[:300]
            token = self._gate.join(code, agent, device)
        except UserError as e:
            return _refused(403, e.error, e.hint)
        joined = JSONResponse({"ok": True})
        joined.set_cookie(
            COOKIE, token, max_age=int(KEPT_S), path="/", secure=True, httponly=True,
            samesite="strict",
        )  # fmt: skip
        return joined


async def _body(request: Request) -> bytes:
    data = b""
    try:
        async for part in request.stream():
            data += part
            if len(data) > MAX_BODY_BYTES:
                raise UserError(f"A code has less than {MAX_BODY_BYTES} bytes.", "Type it again.")
    except ClientDisconnect as e:
        raise UserError("The device went away.", "") from e
    return data


def _code(body: bytes) -> str:
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    code = document.get("code") if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(code, str) or not code.isascii():
        raise UserError("This is no code.", "Scan the QR code, or type the six digits.")
    return code.replace(" ", "")


def _refused(status: int, error: str, hint: str) -> JSONResponse:
    return JSONResponse({"ok": False, "error": error, "hint": hint}, status)
