"""The open port for devices: nobody comes in without a code or a token, and it closes by itself."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from nnjit_studio.engine.hub.hub import Hub, make_server
from nnjit_studio.engine.pairing.address import checked, own_address
from nnjit_studio.engine.pairing.authority import local_authority
from nnjit_studio.engine.pairing.bounded import (
    LINK_PER_S,
    MAX_MESSAGE_BYTES,
    STATUS_PER_S,
    Bounded,
)
from nnjit_studio.engine.pairing.invitation import Invitation
from nnjit_studio.engine.pairing.known import KnownDevices, PairedDevice
from nnjit_studio.engine.pairing.state import DeviceRow, DeviceState, Told, read_state
from nnjit_studio.engine.pairing.web import DeviceWeb
from nnjit_studio.errors import UserError

PORT = 8610
OPEN_S = 3600.0
TICK_S = 0.5
ANOTHER = "The Studio works with another device."
CLOSE_S = 10.0
PING_S = 15.0
"""Between pings, and how long an answer may take: a phone whose radio is off is gone."""


@dataclass(frozen=True)
class DoorOptions:
    """Where the port is, and for how long."""

    address: str = ""
    """IPv4 of a private network; this machine's own where it is empty."""
    port: int = PORT
    """0 for any that is free."""
    open_s: float = OPEN_S


def listen_at(text: str, open_s: float = OPEN_S) -> DoorOptions:
    """Of ``ADDRESS[:PORT]``, each of which may be left out.

    Raises
    ------
    UserError
        When it is none.
    """
    address, _, port = text.partition(":")
    if port and not (port.isdecimal() and int(port) < 65536):
        raise UserError(f"{port!r} is no port.", "Give ADDRESS or ADDRESS:PORT.")
    return DoorOptions(address, int(port or PORT), open_s)


class Door:
    """A port for devices, open from the call on until :meth:`close`, or for an hour.

    Its methods may be called from any thread but the hub's.

    Parameters
    ----------
    hub
        Gets the pages of the devices that work.
    folder
        Of the local authority and the known devices.
    wanted
        Identity of the one device that is to work; empty for the first that comes.
    on_change
        Called on the hub's thread when a device or the code has changed.

    Attributes
    ----------
    devices
        Those that have joined, ever.
    invitation
        The code of now; None until :meth:`invite`.
    authority
        Certificate of the local authority.

    Raises
    ------
    UserError
        When the address is none of a private network, or cannot be used.
    """

    def __init__(
        self,
        hub: Hub,
        folder: Path,
        options: DoorOptions = DoorOptions(),
        wanted: str = "",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.devices, self.invitation = KnownDevices(folder), None
        self._hub, self._wanted, self._on_change = hub, wanted, on_change
        self._lock = threading.Lock()
        self._here: dict[str, DeviceRow] = {}
        self._sockets: dict[tuple[str, str], Bounded] = {}
        self._told, self._news = Told(), 0
        found = local_authority(folder)
        self.authority, self.fingerprint = found.der, found.fingerprint
        address = checked(options.address) if options.address else own_address()
        context = found.context(address)
        self._socket = _listen(address, options.port)
        self._host = f"{address}:{self._socket.getsockname()[1]}"
        self._server = make_server(
            DeviceWeb(self._host, self),
            ssl_context_factory=lambda config, default: context,
            ws_max_size=MAX_MESSAGE_BYTES,
            ws_ping_interval=PING_S,
            ws_ping_timeout=PING_S,
        )
        self._until_s = time.monotonic() + options.open_s
        self._closed = hub.run(self._serve())

    invitation: Invitation | None

    @property
    def address(self) -> str:
        """For a person to type."""
        return f"https://{self._host}/"

    @property
    def url(self) -> str:
        """With the code of now, for the QR code; keep it out of logs."""
        return f"{self.address}#{self.invitation.secret}" if self.invitation else self.address

    @property
    def open(self) -> bool:
        return not self._closed.done()

    @property
    def seconds_left(self) -> float:
        """Until the port closes by itself."""
        return max(0.0, self._until_s - time.monotonic()) if self.open else 0.0

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port and every connection; may be called again."""
        self._server.should_exit = True
        self._closed.result(CLOSE_S)

    def invite(self) -> Invitation:
        """A new code; the one before dies."""
        self.invitation = Invitation()
        return self.invitation

    def at_work(self, device: str) -> None:
        """From now on only this device works, and another that does is cut off within a tick.

        Without one, whichever comes, and what was done stays on their pages.
        """
        self._wanted = device
        told = Told() if device else self._told.ended()
        self._told, self._news = told, self._news + 1

    @property
    def told(self) -> Told:
        """What devices are told of the work."""
        return self._told

    def rows(self) -> list[DeviceRow]:
        """All known devices, with what those that are here tell of themselves."""
        with self._lock:
            here = dict(self._here)
        return [here.get(d.id) or DeviceRow(d.id, d.name, d.joined) for d in self.devices.all()]

    def tell(self, event: Mapping[str, Any]) -> None:
        """Show the devices that are here an event of a session, as JSON."""
        told = self._told.after(event)
        if told != self._told:
            self._told, self._news = told, self._news + 1

    def revoke(self, id: str) -> None:
        """Forget a device and cut it off."""
        self.devices.revoke(id)
        # The hub's thread cuts it off within a tick, as if another process had revoked it.

    # The gate, on the hub's thread

    def join(self, code: str, user_agent: str, before: PairedDevice | None) -> str:
        """See :class:`~nnjit_studio.engine.pairing.web.Gate`."""
        if self.invitation is None:
            raise UserError("The Studio invites nobody now.", "Ask for a code in the Studio.")
        try:
            self.invitation.take(code)
            if before is not None:
                self.devices.revoke(before.id)
            _, token = self.devices.add(user_agent)
        finally:
            self._on_change()
        return token

    def known(self, token: str) -> PairedDevice | None:
        """See :class:`~nnjit_studio.engine.pairing.web.Gate`."""
        return self.devices.find(token)

    def leave(self, device: PairedDevice) -> None:
        """See :class:`~nnjit_studio.engine.pairing.web.Gate`."""
        self.devices.revoke(device.id)
        self._cut_revoked()

    async def link(self, device: PairedDevice, socket: WebSocket) -> None:
        """See :class:`~nnjit_studio.engine.pairing.web.Gate`."""
        if self._wanted and self._wanted != device.id:
            await socket.accept()
            await socket.close(4002, ANOTHER)
            return
        await self._bounded(device, socket, "link", LINK_PER_S, self._hub.serve_page)

    async def status(self, device: PairedDevice, socket: WebSocket) -> None:
        """See :class:`~nnjit_studio.engine.pairing.web.Gate`."""
        self.devices.visited(device)
        await self._bounded(
            device, socket, "status", STATUS_PER_S, lambda s: self._converse(device, s)
        )

    async def _bounded(
        self, device: PairedDevice, socket: WebSocket, what: str, per_s: int, serve: Any
    ) -> None:
        """Serve one socket of a device; an older one of the same kind, maybe dead, is cut."""
        bounded, key = Bounded(socket.receive, per_s), (device.id, what)
        if older := self._sockets.get(key):
            older.cut("The device came again.")
            await asyncio.sleep(0)
        self._sockets[key] = bounded
        self._note(device, socket)
        inner = WebSocket(socket.scope, bounded.receive, socket._send)
        try:
            await bounded.serve(lambda: serve(inner), socket._send)
        finally:
            if self._sockets.get(key) is bounded:
                del self._sockets[key]
            self._note(device, None)

    async def _converse(self, device: PairedDevice, socket: WebSocket) -> None:
        """Take the device's state and tell it the work, until it goes."""
        await socket.accept()
        telling = asyncio.create_task(self._keep_telling(socket))
        try:
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                try:
                    state = read_state(message.get("text"))
                except UserError as e:
                    self._sockets[device.id, "status"].cut(e.error)
                    return
                with self._lock:
                    if row := self._here.get(device.id):
                        self._here[device.id] = dataclasses.replace(row, state=state)
                self._on_change()
        finally:
            telling.cancel()

    async def _keep_telling(self, socket: WebSocket) -> None:
        told = -1
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while True:
                if told != self._news:
                    told = self._news
                    await socket.send_text(self._told.to_json())
                await asyncio.sleep(TICK_S / 2)

    def _note(self, device: PairedDevice, socket: WebSocket | None) -> None:
        """Bring the device's row up to date with its sockets."""
        kinds = {what for id, what in self._sockets if id == device.id}
        with self._lock:
            if kinds:
                row = self._here.get(device.id)
                address = socket.client.host if socket and socket.client else ""
                self._here[device.id] = DeviceRow(
                    device.id, device.name, device.joined, True, "link" in kinds,
                    address or (row.address if row else ""), row.state if row else DeviceState(),
                )  # fmt: skip
            else:
                self._here.pop(device.id, None)
        self._on_change()

    def _cut_revoked(self) -> None:
        for (id, _), bounded in list(self._sockets.items()):
            if self.devices.get(id) is None:
                bounded.cut("The device was revoked.")

    def _cut_others(self) -> None:
        for (id, what), bounded in list(self._sockets.items()):
            if self._wanted and what == "link" and id != self._wanted:
                bounded.cut(ANOTHER)

    async def _serve(self) -> None:
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        try:
            while not serving.done():
                await asyncio.wait({serving}, timeout=TICK_S)
                self._cut_revoked()
                self._cut_others()
                if time.monotonic() >= self._until_s:
                    self._server.should_exit = True
            await serving
        finally:
            self._socket.close()
            asyncio.get_running_loop().call_soon(self._on_change)


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if os.name == "posix":  # elsewhere it lets two programs have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
    except OSError as e:
        listener.close()
        raise UserError(
            f"The port {port} of {address} cannot be used: {e.strerror or e}.",
            "Choose another one, or close what has it.",
        ) from e
    return listener
