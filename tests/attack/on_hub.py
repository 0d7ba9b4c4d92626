"""Attacks on the hub: frames, handshakes, connections without a token."""

from __future__ import annotations

import itertools
import random
import resource
import socket
import time
from urllib.parse import urlsplit

from outcomes import Campaign, Outcome

from nnjit_studio.engine.hub import limits
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.frames import decode_frame, encode_frame
from nnjit_studio.errors import PageError

GROWTH_BYTES = 20 << 20


def frames(run: Campaign) -> Outcome:
    """Mutated frames of a page that has the token."""
    header = {"type": "measured", "id": 7, "samples_ms": [1.5] * 20, "nested": {"a": [[], {}]}}
    bases = [bytes(encode_frame(header, [bytes(40), bytes(3)])), bytes(encode_frame(header))]
    raws = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in run.rounds():
        data = bytearray(run.rng.choice(bases))
        for _ in range(run.rng.randrange(1, 6)):
            data[run.rng.randrange(len(data))] = run.rng.randrange(256)
        if run.rng.random() < 0.2:
            del data[run.rng.randrange(len(data)) :]
        try:
            decode_frame(data)
        except PageError:
            continue
        except Exception:
            raws += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    return run.outcome(
        not raws and grown <= GROWTH_BYTES, {"raw errors": raws}, {"MiB more": grown >> 20}
    )


def handshakes(run: Campaign) -> Outcome:
    """Every Host with every Origin and token: one combination alone may come in."""
    with Hub() as hub:
        origin, token = hub.origin, hub.url.partition("token=")[2]
        host = urlsplit(origin).netloc
        port = host.partition(":")[2]
        hosts = [host, "localhost:" + port, f"[::1]:{port}", "evil.example", f"evil.example:{port}",
                 "127.0.0.1", f"127.0.0.1:{port}.", f"127.1:{port}", host + "x", "",
                 f"{host}\r\nHost: {host}", f"0.0.0.0:{port}"]  # fmt: skip
        origins = [origin, None, "null", "", "http://evil.example", "https://" + host, origin + "/",
                   origin.upper(), f"http://localhost:{port}", f"{origin}\r\nOrigin: {origin}",
                   "http://127.0.0.1", "file://"]  # fmt: skip
        tokens = [token, "", "x", token[:-1], token + "x", token.swapcase(),
                  f"{token}&token={token}", "%00", token[::-1], "../" + token]  # fmt: skip
        combinations = list(itertools.product(hosts, origins, tokens))
        run.size = min(run.size, len(combinations))
        right = (host, origin, token)
        random.Random(run.rng.random()).shuffle(combinations)
        combinations.remove(right)
        wrong = 0
        for _, combination in zip(run.rounds(), [right, *combinations], strict=False):
            wrong += _accepted(hub, *combination) != (combination == right)
    return run.outcome(not wrong, {"wrongly accepted or refused": wrong})


def _accepted(hub: Hub, host: str, origin: str | None, token: str) -> bool:
    lines = [f"GET /link?token={token} HTTP/1.1", f"Host: {host}", "Upgrade: websocket",
             "Connection: Upgrade", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]  # fmt: skip
    if origin is not None:
        lines.append(f"Origin: {origin}")
    with _connected(hub) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        return client.recv(64).startswith(b"HTTP/1.1 101")


def connections(run: Campaign) -> Outcome:
    """Connections that send nothing; the hub still answers, and keeps few of them."""
    with Hub() as hub:
        clients = [_connected(hub) for _ in run.rounds()]
        most = len(hub._server.server_state.connections)
        for client in clients:
            client.close()
        end = time.monotonic() + 30
        while not (answers := _answers(hub)) and time.monotonic() < end:
            time.sleep(0.1)
    holds = answers and most <= limits.MAX_CONNECTIONS + 1
    return run.outcome(holds, {}, {"kept at most": most})


def _answers(hub: Hub) -> bool:
    try:
        with _connected(hub) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            return client.recv(64).startswith(b"HTTP/1.1 403")
    except ConnectionError:
        return False


def _connected(hub: Hub) -> socket.socket:
    port = urlsplit(hub.origin).port or 0
    return socket.create_connection(("127.0.0.1", port), timeout=60)
