"""The port for devices without a port: requests straight to the application."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.types import Message
from starlette.websockets import WebSocket

from nnjit_studio.engine.pairing.invitation import Invitation
from nnjit_studio.engine.pairing.known import KnownDevices, PairedDevice
from nnjit_studio.engine.pairing.web import COOKIE, DeviceWeb

HOST = "192.168.1.20:8610"
PHONE = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/140.0 Mobile Safari"


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def token(self) -> str:
        """Of the cookie that it sets; empty where it sets none."""
        return self.headers.get("set-cookie", "").partition(f"{COOKIE}=")[2].partition(";")[0]


class Gate:
    """The door's part that needs no port."""

    authority = b"certificate"

    def __init__(self, folder: Path) -> None:
        self.invitation, self.devices = Invitation(), KnownDevices(folder)
        self.served: list[str] = []

    def join(self, code: str, user_agent: str, before: PairedDevice | None) -> str:
        self.invitation.take(code)
        return self.devices.add(user_agent)[1]

    def known(self, token: str) -> PairedDevice | None:
        return self.devices.find(token)

    def leave(self, device: PairedDevice) -> None:
        self.devices.revoke(device.id)

    async def link(self, device: PairedDevice, socket: WebSocket) -> None:
        self.served.append("link")

    async def status(self, device: PairedDevice, socket: WebSocket) -> None:
        self.served.append("status")


async def ask(
    gate: Gate,
    path: str,
    body: bytes | None = None,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    kind: str = "http",
) -> Answer:
    """One request; a ``body`` makes it a POST. ``headers`` go in place of a browser's own."""
    own = {"host": HOST, "user-agent": PHONE}
    if body is not None or kind == "websocket":
        own["origin"] = f"https://{HOST}"
    if token:
        own["cookie"] = f"{COOKIE}={token}"
    given = {**own, **(headers or {})}
    scope = {
        "type": kind,
        "method": "GET" if body is None else "POST",
        "path": path,
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in given.items() if v],
    }
    first = {"type": "http.request", "body": body or b""}
    messages = iter([first if kind == "http" else {"type": "websocket.connect"}])
    answer = Answer()

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        answer.body += message.get("body", b"")
        if message["type"] == "websocket.close":
            answer.status = 403

    await DeviceWeb(HOST, gate)(scope, receive, send)
    return answer


async def join(gate: Gate, code: str, **given: Any) -> Answer:
    return await ask(gate, "/join", json.dumps({"code": code}).encode(), **given)
