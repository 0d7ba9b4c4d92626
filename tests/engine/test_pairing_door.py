"""The port for devices with real TLS: what is open when, and what a device can do there."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from waiting import PATIENCE_S, until
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.connection import PROTOCOL_VERSION
from nnjit_studio.engine.messages.frames import encode_frame
from nnjit_studio.engine.pairing import bounded
from nnjit_studio.engine.pairing.door import Door, DoorOptions
from nnjit_studio.engine.pairing.web import COOKIE
from nnjit_studio.errors import UserError

HOUSE = "127.0.0.9"
HELLO = encode_frame({"type": "hello", "protocol": PROTOCOL_VERSION, "user_agent": "x"})
STATE = json.dumps(
    {"hidden": True, "battery": 0.25, "charging": False, "cores": 8, "memory_gb": None}
)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


@pytest.fixture
def door(hub: Hub, tmp_path: Path) -> Iterator[Door]:
    with Door(hub, tmp_path, DoorOptions(HOUSE, 0)) as door:
        yield door


def trusting(door: Door) -> ssl.SSLContext:
    """A client that trusts the local authority and checks the address, as a phone does."""
    return ssl.create_default_context(cadata=door.authority)


def post(door: Door, path: str, document: object, token: str = "") -> tuple[int, str]:
    """Status and the token of an answer."""
    place = urlsplit(door.address)
    client = http.client.HTTPSConnection(HOUSE, place.port or 0, context=trusting(door), timeout=60)
    headers = {"Origin": door.address.rstrip("/"), "Cookie": f"{COOKIE}={token}"}
    client.request("POST", path, json.dumps(document), headers)
    answer = client.getresponse()
    cookie = answer.getheader("Set-Cookie") or ""
    answer.read()
    client.close()
    return answer.status, cookie.partition(f"{COOKIE}=")[2].partition(";")[0]


def joined(door: Door) -> str:
    status, token = post(door, "/join", {"code": door.invite().secret})
    assert status == 200
    return token


class Client:
    """A socket of a device, on the hub's loop: two threads that read and write one TLS connection
    lose it now and then, as OpenSSL lets one thread in at a time.
    """

    def __init__(self, hub: Hub, socket: ClientConnection) -> None:
        self._hub, self._socket = hub, socket

    def send(self, message: str | bytes) -> None:
        self._hub.run(self._socket.send(message)).result(PATIENCE_S)

    def recv(self) -> str | bytes:
        return self._hub.run(self._socket.recv()).result(PATIENCE_S)

    def close(self) -> None:
        self._hub.run(self._socket.close()).result(PATIENCE_S)


def come(door: Door, hub: Hub, path: str, token: str) -> contextlib.closing[Client]:
    async def connected() -> ClientConnection:
        return await connect(
            door.address.replace("https", "wss").rstrip("/") + path,
            ssl=trusting(door),
            origin=door.address.rstrip("/"),  # type: ignore[arg-type]
            additional_headers={"Cookie": f"{COOKIE}={token}"},
            max_size=None,
            open_timeout=PATIENCE_S,
        )

    return contextlib.closing(Client(hub, hub.run(connected()).result(PATIENCE_S)))


def ended(client: Client) -> str:
    """Why the Studio closed the connection."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            client.recv()
    return str(closed.value)


def is_open(port: int, address: str = HOUSE) -> bool:
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((address, port)) == 0


def test_nothing_is_open_before_and_after(hub: Hub, tmp_path: Path) -> None:
    with Door(hub, tmp_path, DoorOptions(HOUSE, 0)) as door:
        port = urlsplit(door.address).port or 0
        until(lambda: is_open(port))
        assert not is_open(port, "127.0.0.1"), "only the address that was chosen"
    assert not door.open and not is_open(port)


def test_the_port_closes_by_itself(hub: Hub, tmp_path: Path) -> None:
    changes: list[None] = []
    options = DoorOptions(HOUSE, 0, open_s=0.0)
    door = Door(hub, tmp_path, options, on_change=lambda: changes.append(None))
    until(lambda: not door.open and changes)
    assert door.seconds_left == 0 and not is_open(urlsplit(door.address).port or 0)


def test_plain_http_and_strangers_certificates_find_nothing(door: Door) -> None:
    port = urlsplit(door.address).port or 0
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(
            socket.create_connection((HOUSE, port)), server_hostname=HOUSE
        )
    with socket.create_connection((HOUSE, port)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP" not in plain.recv(100)


def test_a_device_works_tells_its_state_and_leaves(door: Door, hub: Hub) -> None:
    assert post(door, "/join", {"code": "000000"})[0] == 403, "nobody was invited"
    token = joined(door)
    assert door.invitation is not None and door.invitation.state == "used"
    with come(door, hub, "/status", token) as status, come(door, hub, "/link", token) as link:
        link.send(HELLO)
        assert hub.wait_for_page()["user_agent"] == "x"
        status.send(STATE)
        until(lambda: door.rows()[0].state.battery == 0.25)
        row = door.rows()[0]
        assert row.here and row.works and row.state.hidden and row.address.startswith("127.")
        door.tell({"event": "started", "model": "m"})
        until(lambda: json.loads(status.recv())["model"] == "m")
        assert post(door, "/leave", {}, token)[0] == 200
        assert "revoked" in ended(status) and "revoked" in ended(link)
    assert door.rows() == []
    with pytest.raises(InvalidStatus):
        come(door, hub, "/link", token)


def test_one_that_is_revoked_elsewhere_is_cut_off(door: Door, hub: Hub) -> None:
    token = joined(door)
    with come(door, hub, "/status", token) as status:
        door.devices.revoke(token.partition(".")[0])
        assert "revoked" in ended(status)


def test_one_that_comes_again_takes_the_place_of_its_dead_self(door: Door, hub: Hub) -> None:
    token = joined(door)
    with come(door, hub, "/link", token) as first:
        first.send(HELLO)
        hub.wait_for_page()
        with come(door, hub, "/link", token) as second:
            assert "came again" in ended(first)
            second.send(HELLO)
            until(lambda: hub.pages == 2)


def test_a_hostile_device_is_cut_off(door: Door, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_second = functools.partial(bounded.Bounded, now_s=lambda: 0.0)
    monkeypatch.setattr("nnjit_studio.engine.pairing.door.Bounded", in_one_second)
    monkeypatch.setattr("nnjit_studio.engine.pairing.door.LINK_PER_S", 5)
    token = joined(door)
    with come(door, hub, "/status", token) as status:
        status.send('{"hidden": "<script>"}')
        assert "another form" in ended(status)
    with come(door, hub, "/link", token) as link:
        link.send(HELLO)
        with contextlib.suppress(ConnectionClosed):  # the Studio may have ended it
            for _ in range(5):
                link.send(encode_frame({"type": "log", "level": "info", "text": "x"}))
        assert "more than 5 messages" in ended(link)
    with come(door, hub, "/link", token) as link:
        with contextlib.suppress(ConnectionClosed):  # the Studio does not wait for its end
            link.send(bytes(bounded.MAX_MESSAGE_BYTES + 1))
        # bytes that nobody reads may cost the reason, never the end
        assert re.search("1009|no close frame received", ended(link))
    with come(door, hub, "/link", token) as link:
        link.send(b"\xff" * 100)
        assert "malformed" in ended(link)


def test_a_door_for_one_device_keeps_others_waiting(hub: Hub, tmp_path: Path) -> None:
    with (
        Door(hub, tmp_path, DoorOptions(HOUSE, 0), wanted="0" * 16) as door,
        come(door, hub, "/link", joined(door)) as link,
    ):
        assert "another device" in ended(link)


def test_what_was_done_stays_on_a_device_until_the_next_work(door: Door, hub: Hub) -> None:
    round_ = {"event": "round", "workload": "dot#1", "best_gflops": 3.0, "left_s": 9.0}
    with come(door, hub, "/status", joined(door)) as status:
        door.at_work("0" * 16)
        door.tell({"event": "started", "model": "m"})
        door.tell(round_)
        door.at_work("")
        while not (told := json.loads(status.recv()))["done"]:
            pass
        assert (told["model"], told["gflops"], told["left_s"]) == ("m", 3.0, None)
        door.at_work("0" * 16)
        assert json.loads(status.recv())["model"] == ""


def test_a_port_that_is_taken_is_told(door: Door, hub: Hub, tmp_path: Path) -> None:
    until(lambda: is_open(urlsplit(door.address).port or 0))
    with pytest.raises(UserError, match="cannot be used"):
        Door(hub, tmp_path, DoorOptions(HOUSE, urlsplit(door.address).port or 0))
