"""The server as a process that is killed: what it acknowledged is there, and counted once."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import trustme
from reports import key_of, report

from nnjit_studio.commons.report.signed import sign
from nnjit_studio.commons.server.store import Store


@contextmanager
def running(
    url: str, port: int, host: str = "127.0.0.1", *tls: str, verify: ssl.SSLContext | bool = True
) -> Iterator[str]:
    """A server, which is killed with SIGKILL at the end."""
    command = [sys.executable, "-m", "nnjit_studio", "server", "start", "--database", url]
    where = ["--host", host, "--port", str(port)]
    process = subprocess.Popen([*command, *where, *tls], stderr=subprocess.PIPE)
    address = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            try:
                assert httpx2.get(f"{address}/health", verify=verify).json()["ok"]
                break
            except httpx2.TransportError:
                time.sleep(0.1)
        else:
            raise AssertionError("the server did not start")
        yield address
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def test_what_was_acknowledged_outlives_a_kill(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    acknowledged, now = 0, int(time.time())
    for turn in range(2):
        with running(url, port) as address:
            for n in range(10):
                made = report(turn + 1, server=address, created=now)
                sent = httpx2.post(f"{address}/reports", content=sign(made, key_of(n + 1)))
                assert sent.json()["new"], sent.text
                acknowledged += 1
            again = httpx2.post(f"{address}/reports", content=sign(made, key_of(10)))
            assert not again.json()["new"]
    store = Store(url)
    assert store.counts()["ballots"] == 10 and store.counts()["devices"] == 10
    assert acknowledged == 20
    store.close()


def test_a_certificate_without_its_key_is_refused_at_once(tmp_path: Path) -> None:
    own, other = trustme.CA().issue_cert("127.0.0.1"), trustme.CA().issue_cert("127.0.0.1")
    certificate, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    own.cert_chain_pems[0].write_to_path(certificate)
    other.private_key_pem.write_to_path(key)
    started = [sys.executable, "-m", "nnjit_studio", "server", "start", "--certificate"]
    for words, told in (([], "Give --certificate and --key"), (["--key", str(key)], "no pair of")):
        command = [*started, str(certificate), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1 and told in done.stderr, done.stderr
    assert not (tmp_path / "commons.db").exists()
