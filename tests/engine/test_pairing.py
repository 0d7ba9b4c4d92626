"""Who joins as a device of the house, and who does not."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from pathlib import Path

import pytest
from pairing_asgi import HOST, Answer, Gate, ask, join

from nnjit_studio.engine.pairing import known as known_module
from nnjit_studio.engine.pairing.address import checked
from nnjit_studio.engine.pairing.bounded import Bounded
from nnjit_studio.engine.pairing.invitation import CODE_S, TRIES, Invitation
from nnjit_studio.engine.pairing.known import MOST, KnownDevices, name_of
from nnjit_studio.engine.pairing.state import DeviceState, Told, read_state
from nnjit_studio.errors import UserError

PARTS = ("/studio/main.js", "/engine/engine.js", "/studio/devices/device.js")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def refused(answer: Answer, status: int = 403) -> str:
    """The one sentence of a refusal, which sets no token."""
    assert answer.status == status and not answer.token
    document = answer.document
    assert document["ok"] is False and document["error"].count(".") == 1
    return str(document["error"])


def test_nobody_joins_without_the_code_in_10000_attempts(gate: Gate) -> None:
    async def attempts() -> list[int]:
        right = int(gate.invitation.digits)
        # The right one comes too, but only after the lock.
        guesses = [(right + 1 + i) % 10**6 for i in range(9_999)] + [right]
        return [(await join(gate, f"{guess:06d}")).status for guess in guesses]

    assert set(asyncio.run(attempts())) == {403}
    assert gate.invitation.state == "locked" and gate.devices.all() == []
    assert "locked" in refused(asyncio.run(join(gate, gate.invitation.secret)))


def test_no_secret_is_guessed_and_each_wrong_one_counts(gate: Gate) -> None:
    assert len(gate.invitation.secret) * 6 >= 128
    near = gate.invitation.secret[:-1]
    for left in range(TRIES - 1, -1, -1):
        answer = asyncio.run(join(gate, near))
        assert (f"{left} tries" in answer.document["hint"]) == bool(left)
    assert gate.invitation.state == "locked"


@pytest.mark.parametrize("which", ["secret", "digits"])
def test_a_code_lets_one_device_in(gate: Gate, which: str) -> None:
    code = getattr(gate.invitation, which)
    answer = asyncio.run(join(gate, code))
    assert answer.status == 200
    for word in ("Secure", "HttpOnly", "SameSite=strict", "Path=/"):
        assert word in answer.headers["set-cookie"]
    assert gate.known(answer.token) in gate.devices.all()
    assert "used" in refused(asyncio.run(join(gate, code)))


def test_a_code_dies_in_two_minutes(gate: Gate) -> None:
    now = [0.0]
    gate.invitation = Invitation(lambda: now[0])
    now[0] = CODE_S
    assert gate.invitation.state == "expired" and gate.invitation.seconds_left == 0
    assert "older" in refused(asyncio.run(join(gate, gate.invitation.secret)))


@pytest.mark.parametrize(
    "body",
    [b"", b"123456", b"{", b"[" * 200, b'{"code": 123456}', b'{"code": null}', b"\xff\xfe",
     b'{"code": "1", "more": 1}', '{"code": "١٢"}'.encode(), b'{"code": "' + b"1" * 300 + b'"}'],
)  # fmt: skip
def test_what_is_no_code_is_refused_and_costs_no_try(gate: Gate, body: bytes) -> None:
    assert refused(asyncio.run(ask(gate, "/join", body)))
    asyncio.run(join(gate, gate.invitation.digits))
    assert len(gate.devices.all()) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:8610"}, {"host": "127.0.0.1:8610"}, {"host": "192.168.1.20"},
        {"host": ""}, {"origin": "https://evil.example"}, {"origin": f"http://{HOST}"},
        {"origin": "null"}, {"origin": ""}, {"sec-fetch-site": "cross-site"},
    ],
)  # fmt: skip
def test_another_page_cannot_join_or_leave_for_a_device(
    gate: Gate, headers: dict[str, str]
) -> None:
    token = asyncio.run(join(gate, gate.invitation.digits)).token
    gate.invitation = Invitation()
    assert refused(asyncio.run(join(gate, gate.invitation.digits, headers=headers)))
    assert refused(asyncio.run(ask(gate, "/leave", b"", token, headers)))
    assert gate.invitation.state == "open" and gate.known(token)


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": ""}],
)
def test_sockets_are_for_the_page_of_a_device(gate: Gate, headers: dict[str, str]) -> None:
    token = asyncio.run(join(gate, gate.invitation.digits)).token
    for path in ("/link", "/status"):
        for forged in ("", "x", token[:-1] + "~", token.partition(".")[2], "../x." + token):
            assert asyncio.run(ask(gate, path, token=forged, kind="websocket")).status == 403
        assert asyncio.run(ask(gate, path, None, token, headers, "websocket")).status == 403
    assert gate.served == []
    for path in ("/link", "/status", "/gpu", "/"):
        asyncio.run(ask(gate, path, token=token, kind="websocket"))
    assert gate.served == ["link", "status"]


def test_whoever_only_knows_the_address_gets_the_page_to_join_and_nothing_of_the_engine(
    gate: Gate,
) -> None:
    first = asyncio.run(ask(gate, "/"))
    assert first.status == 200 and b"join.js" in first.body and b"device.js" not in first.body
    assert "wss://" + HOST in first.headers["content-security-policy"]
    assert asyncio.run(ask(gate, "/authority.crt")).body == b"certificate"
    for path in (*PARTS, "/link", "/status", "/gpu", "/../errors.py", "/studio/../../errors.py"):
        assert asyncio.run(ask(gate, path)).status == 404
    token = asyncio.run(join(gate, gate.invitation.digits)).token
    assert b"device.js" in asyncio.run(ask(gate, "/", token=token)).body
    for path in PARTS:
        assert asyncio.run(ask(gate, path, token=token)).status == 200
    for path in ("/../errors.py", "/bench/x.js", "/etc/passwd", "/devices/x.json"):
        assert asyncio.run(ask(gate, path, token=token)).status == 404
    assert asyncio.run(ask(gate, "/", token=token, headers={"host": "evil"})).status == 403


def test_who_leaves_or_is_revoked_is_out(gate: Gate) -> None:
    token = asyncio.run(join(gate, gate.invitation.digits)).token
    assert asyncio.run(ask(gate, "/leave", b"", token)).status == 200
    assert gate.known(token) is None and gate.devices.all() == []
    gate.invitation = Invitation()
    token = asyncio.run(join(gate, gate.invitation.digits)).token
    other = KnownDevices(gate.devices._folder.parent)  # another process
    assert other.revoke(token.partition(".")[0]) and not other.revoke("../authority")
    assert gate.known(token) is None
    assert asyncio.run(ask(gate, "/studio/main.js", token=token)).status == 404


def test_tokens_are_kept_as_digests_and_grow_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = KnownDevices(tmp_path)
    device, token = devices.add("x")
    (file,) = (tmp_path / "devices").glob("*.json")
    assert token.partition(".")[2] not in file.read_text()
    old = time.time() - known_module.KEPT_S - 10
    os.utime(file, (old, old))
    assert devices.find(token) is None
    devices.visited(device)
    file.write_text("{}")
    assert devices.find(token) is None


def test_there_is_a_limit_of_devices(tmp_path: Path) -> None:
    devices = KnownDevices(tmp_path)
    for _ in range(MOST):
        devices.add("x")
    with pytest.raises(UserError, match="joined already"):
        devices.add("x")


def test_devices_are_named_by_what_they_run() -> None:
    agent = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1"
    assert name_of(agent) == "Safari on iPhone"
    assert name_of("<script>") == "A device"


def test_only_addresses_of_private_networks_are_served() -> None:
    assert checked("192.168.1.20") == "192.168.1.20"
    for wrong in ("8.8.8.8", "0.0.0.0", "::1", "localhost", "192.168.1", ""):
        with pytest.raises(UserError, match="private network"):
            checked(wrong)


def test_the_authority_is_the_users_own_and_speaks_for_private_networks_alone(
    tmp_path: Path,
) -> None:
    from cryptography import x509

    from nnjit_studio.engine.pairing.authority import local_authority

    found = local_authority(tmp_path)
    file = tmp_path / "authority.pem"
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    names = found.certificate.extensions.get_extension_for_class(x509.NameConstraints)
    assert names.critical and names.value.permitted_subtrees is not None
    permitted = {str(tree.value) for tree in names.value.permitted_subtrees}
    assert "192.168.0.0/16" in permitted and "0.0.0.0/0" not in permitted
    assert local_authority(tmp_path).fingerprint == found.fingerprint
    found.context("192.168.1.20")
    if os.name == "posix":
        file.chmod(0o644)
        with pytest.raises(UserError, match="can be read by others"):
            local_authority(tmp_path)
    file.write_text("no key")
    file.chmod(0o600)
    with pytest.raises(UserError, match="damaged"):
        local_authority(tmp_path)


def test_a_device_that_floods_is_cut_off() -> None:
    async def flood() -> tuple[int, str]:
        async def receive() -> dict[str, object]:
            return {"type": "websocket.receive", "bytes": b""}

        bounded = Bounded(receive, 10, lambda: 5.0)
        taken = 0
        while (await bounded.receive())["type"] == "websocket.receive":
            taken += 1
        return taken, bounded.why

    assert asyncio.run(flood()) == (10, "The device sent more than 10 messages in a second.")


def test_a_device_that_is_cut_off_while_it_is_silent_is_gone() -> None:
    async def silence() -> str:
        bounded = Bounded(asyncio.Event().wait, 10)  # type: ignore[arg-type]
        waiting = asyncio.create_task(bounded.receive())
        await asyncio.sleep(0)
        bounded.cut("The device was revoked.")
        return str((await waiting)["reason"])

    assert asyncio.run(silence()) == "The device was revoked."


GOOD = {"hidden": False, "battery": 0.5, "charging": True, "cores": 8, "memory_gb": 4}


def test_the_state_of_a_device_has_one_form() -> None:
    assert read_state(json.dumps(GOOD)) == DeviceState(False, 0.5, True, 8, 4.0)
    silent = {**dict.fromkeys(GOOD), "hidden": True}
    assert read_state(json.dumps(silent)) == DeviceState(True)
    wrong = [
        None, b"{}", "", "{}", "[]", "null", "[" * 200, " " * 300,
        *(json.dumps({**GOOD, **bad}) for bad in (
            {"hidden": 1}, {"hidden": None}, {"battery": True}, {"battery": -1}, {"battery": 1.1},
            {"battery": "1"}, {"battery": float("nan")}, {"charging": 0}, {"more": 1},
            {"cores": 0}, {"cores": True}, {"memory_gb": "8"}, {"memory_gb": 1e9},
        )),
    ]  # fmt: skip
    for text in wrong:
        with pytest.raises(UserError, match="another form"):
            read_state(text)


def test_a_device_is_told_kernels_speeds_and_drift() -> None:
    told = Told().after({"event": "started", "model": "m"})
    told = told.after({"event": "round", "workload": "dot#1", "best_gflops": 3.0, "left_s": 9.0})
    told = told.after({"event": "drift", "what": "Slower.", "rate": 0.8})
    assert told == Told("m", "dot", 3.0, 0.8, "Slower.", 9.0)
    assert told.after({"event": "finished"}).done
    assert json.loads(told.to_json())["gflops"] == 3.0
