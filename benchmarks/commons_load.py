"""Load and kills of a commons on a real PostgreSQL: rates, and whether anything is lost.

Each device sends its reports one after the other and repeats one until it is acknowledged, whatever
dies meanwhile. At the end the database must have counted each device's reports exactly once.
Writes ``benchmarks/commons_load.json``; run it idle.
"""

from __future__ import annotations

import argparse
import datetime
import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nnjit_studio.commons.report.document import Finding, Place, Report, Timing
from nnjit_studio.commons.report.signed import sign

RESULT = Path(__file__).with_name("commons_load.json")
HOME = {
    "primitives": "cache_read=0,cache_write=1,unroll=1,vectorize=1",
    "family": "cpu-16v-l1.32k-l2.512k", "device": "0123456789abcdef", "engine": "chromium",
    "version": 156, "tier": "relaxed-simd", "threads": 1, "compiler": "1.2",
}  # fmt: skip
PLACE = Place("matmul", "384x768x768", "float32", "row-major+bias", **HOME)  # type: ignore[arg-type]
GOOD = "x0=8,y0=6,r0=4,x1=8,y1=6,r1=384,order=nm,pack=1"
A_DEVICE = 40
"""Reports of one device: a server takes 50 of one source at once."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


class Postgres:
    """A cluster of its own, with its durable defaults; it refuses root."""

    def __init__(self) -> None:
        self._programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        root = os.geteuid() == 0
        self._user = "postgres" if root else pwd.getpwuid(os.geteuid()).pw_name
        self._folder, self._port = Path(tempfile.mkdtemp(prefix="nnjit-pg-")), free_port()
        if root:
            shutil.chown(self._folder, self._user)
        self._call("initdb", "-U", "commons", "--auth=trust")
        self.start()
        self.url = f"postgresql://commons@127.0.0.1:{self._port}/postgres"

    def _call(self, program: str, *words: str) -> int:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *words]
        user = self._user if os.geteuid() == 0 else None
        null = subprocess.DEVNULL
        return subprocess.run(
            command, user=user, cwd=self._folder, stdout=null, stderr=null, check=False
        ).returncode

    def start(self) -> None:
        where = f"-p {self._port} -c listen_addresses=127.0.0.1 "
        where += f"-c unix_socket_directories={self._folder}"
        for _ in range(60):  # orphans of a killed one end first
            if not self._call(
                "pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", where, "start"
            ):
                return
            time.sleep(0.5)
        raise RuntimeError("PostgreSQL did not start")

    def kill(self) -> None:
        lines = (self._folder / "data" / "postmaster.pid").read_text().splitlines()
        os.kill(int(lines[0]), signal.SIGKILL)

    def close(self) -> None:
        self._call("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(self._folder)


class Server:
    """`nnjit server start`, whose devices come through a proxy, each from a block of its own."""

    def __init__(self, url: str) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._command = [
            sys.executable, "-m", "nnjit_studio", "server", "start", "--database", url,
            "--port", str(self.port), "--proxy", "127.0.0.1",
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Tally:
    """What the senders saw."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    """Reports by device key."""
    seconds: list[float] = field(default_factory=list)
    repeated: int = 0
    wrong: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)


def send_all(server: Server, tally: Tally, sender: int) -> None:
    """Devices of one sender, each with as many reports as a day allows."""
    device, link = 0, None
    while not tally.stop.is_set():
        device += 1
        seed = (sender << 20) + device
        key = Ed25519PrivateKey.from_private_bytes(seed.to_bytes(32, "big"))
        name = ""
        headers = {"X-Forwarded-For": f"{1 + sender}.{device >> 8 & 255}.{device & 255}.1"}
        for number in range(1, A_DEVICE + 1):
            if tally.stop.is_set():
                break
            ms = 10 + seed % 9973 * 1e-6
            best = (Timing(GOOD, ms, ms * 0.99, ms * 1.01, 20),)
            found = Finding(PLACE, Timing("default", 20.0, 19.8, 20.2, 20), best)
            data = sign(Report(1, server.address, number, int(time.time()), (found,)), key)
            name = key.public_key().public_bytes_raw().hex()
            while True:
                try:
                    if link is None:
                        link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
                    began = time.perf_counter()
                    link.request("POST", "/reports", data, headers)
                    answer = link.getresponse()
                    body = answer.read()
                    if answer.status == 200:
                        tally.seconds.append(time.perf_counter() - began)
                        break
                    if answer.status == 429:  # repeats count too: wait, as it says
                        time.sleep(0.5)
                    elif answer.status < 500:
                        tally.wrong.append(body.decode()[:200])
                        return
                except (OSError, http.client.HTTPException):
                    link = None
                tally.repeated += 1
                time.sleep(0.05)
            tally.acknowledged[name] = number


def read_all(server: Server, seconds: list[float], stop: threading.Event) -> None:
    """The same question again and again, over one connection."""
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    while not stop.is_set():
        began = time.perf_counter()
        link.request("GET", f"/kernels?{urlencode(HOME)}")
        answer = link.getresponse()
        answer.read()
        assert answer.status == 200
        seconds.append(time.perf_counter() - began)


def while_running(
    work: list[Callable[[], None]], stop: threading.Event, then: Callable[[], None]
) -> float:
    """Run threads while something happens; the seconds that took."""
    threads = [threading.Thread(target=each) for each in work]
    began = time.monotonic()
    for each in threads:
        each.start()
    try:
        then()
    finally:
        stop.set()
        took = time.monotonic() - began
        for each in threads:
            each.join()
    return took


def rates(seconds: list[float], took: float) -> dict[str, float]:
    """A second, and the median and 99th percentile in ms."""
    ordered = sorted(seconds)
    at = [ordered[int((len(ordered) - 1) * q)] * 1000 for q in (0.5, 0.99)]
    rate = round(len(ordered) / took)
    return {"a_second": rate, "p50_ms": round(at[0], 1), "p99_ms": round(at[1], 1)}


def account(url: str, tallies: list[Tally]) -> dict[str, int]:
    """What the database counted against what was acknowledged."""
    with psycopg.connect(url) as connection:
        counted = dict(connection.execute("SELECT key, reports FROM devices").fetchall())
        ballots = dict(
            connection.execute("SELECT voter, count(*) FROM ballots GROUP BY voter").fetchall()
        )
    acknowledged: dict[str, int] = {}
    for tally in tallies:
        acknowledged.update(tally.acknowledged)
    return {
        "acknowledged": sum(acknowledged.values()),
        "lost": sum(max(n - counted.get(k, 0), 0) for k, n in acknowledged.items()),
        "counted_twice": sum(max(counted.get(k, 0) - n, 0) for k, n in acknowledged.items())
        + sum(n - 1 for n in ballots.values()),
        "repeated": sum(t.repeated for t in tallies),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--senders", type=int, default=40)
    options = parser.parse_args()
    figures: dict[str, object] = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "options": vars(options),
    }
    postgres = Postgres()
    server = Server(postgres.url)
    tallies, first = [], 1
    try:
        for what, then in stages(server, postgres, options):
            tally = Tally()
            tallies.append(tally)
            work = [
                (lambda s=first + n, t=tally: send_all(server, t, s))
                for n in range(options.senders)
            ]
            first += options.senders
            cpu = server.cpu_s()
            took = while_running(work, tally.stop, then)  # type: ignore[arg-type]
            figures[what] = {**rates(tally.seconds, took), "refused": tally.wrong}
            if what == "reports":
                figures["server_cpu_share"] = round((server.cpu_s() - cpu) / took, 2)
        reads: list[float] = []
        stop = threading.Event()
        work = [lambda: read_all(server, reads, stop)] * 4
        took = while_running(work, stop, lambda: time.sleep(options.seconds))
        figures["cached_reads"] = rates(reads, took)
        figures["account"] = account(postgres.url, tallies)
    finally:
        server.kill()
        postgres.close()
    text = json.dumps(figures, indent=2) + "\n"
    RESULT.write_text(text, encoding="utf-8")
    print(text)
    bad = figures["account"]
    sys.exit(bool(bad["lost"] or bad["counted_twice"] or any(t.wrong for t in tallies)))  # type: ignore[index]


def stages(
    server: Server, postgres: Postgres, options: argparse.Namespace
) -> list[tuple[str, Callable[[], None]]]:
    """What happens while reports come in."""

    def kill_server() -> None:
        for _ in range(options.kills):
            time.sleep(0.5)
            server.kill()
            server.start()

    def kill_postgres() -> None:
        for _ in range(options.kills):
            time.sleep(0.5)
            postgres.kill()
            postgres.start()

    return [
        ("reports", lambda: time.sleep(options.seconds)),
        ("server_killed", kill_server),
        ("postgres_killed", kill_postgres),
    ]


if __name__ == "__main__":
    main()
