"""Seven machines tell a server over TLS what is fast; a new one needs no search of its own.

Each has a network, an address and a home of its own: five with Firefox, one with Chromium, one with
Chromium on half a processor. Five alike, because fewer independent sources are never believed: what
the two of Chromium said is told to nobody.

One of each browser measures, and the others of its kind have what it found with other times: on a
busy machine, five that measure need not agree. In ``make crowd`` each measures for itself, and
databases of both kinds are tried.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import loaded
import numpy as np
import pytest
import trustme
from networks import Network, network, why_not
from nnjit_command import events_until, json_lines, nnjit_here
from onnx import helper
from onnx_models import save
from test_server_process import running
from waiting import until

from nnjit_studio.database import KernelDatabase

pytestmark = pytest.mark.chromium
ALIKE = 5
SEVEN = (*["firefox"] * ALIKE, "chromium", "slow chromium")
ALL_MEASURE = bool(os.environ.get("NNJIT_CROWD_MEASURES"))
NEW = 3 if ALL_MEASURE else 1
"""Machines that ask: one alone may meet a bad moment of this one."""
MOST_ROUNDS = 2
SECONDS = 6
AT_ONCE = ("--target", "chromium", "--seconds", "0", "--threads", "1", "--no-sandbox")
CPU, SLOW = Path("/sys/fs/cgroup/cpu"), f"nnjit-{os.getpid()}"


@dataclass(frozen=True)
class Machine:
    """One that is played."""

    network: Network
    browser: str
    home: Path
    authority: Path
    """File of the only certificate that it trusts."""

    def nnjit(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run the program there to its end."""
        with patch.dict(os.environ, self.environment(), clear=True):
            return loaded.command([*map(str, words)], 600, **self.place())

    def place(self) -> dict[str, str]:
        """Where its programs run."""
        group = f"{CPU / SLOW}/cgroup.procs" if self.browser.startswith("slow") else ""
        return {"network": self.network.name, "group": group}

    def environment(self) -> dict[str, str]:
        own = {"HOME": self.home, "XDG_DATA_HOME": self.home, "SSL_CERT_FILE": self.authority}
        known = {k: v for k, v in os.environ.items() if k != "NNJIT_DATABASE"}
        return {**known, **{name: str(path) for name, path in own.items()}}

    def tune(self, model: Path, *words: object, all_of_it: bool = True) -> list[dict[str, Any]]:
        """The events of a session; or until one candidate is measured, when it is interrupted."""
        given = (
            "tune", model, "--target", self.browser.split()[-1], "--no-sandbox", "--threads", 1,
            "--seconds", SECONDS, "--full-speed", "--json", *words,
        )  # fmt: skip
        if all_of_it:
            return json_lines(self.nnjit(*given))
        with patch.dict(os.environ, self.environment(), clear=True):
            events, code = events_until(lambda e: any(candidates_of(e)), *given, **self.place())
        assert code == 0
        return events


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A depthwise convolution; Firefox runs the default a quarter slower than the best one."""
    weight = np.random.default_rng(1).standard_normal((32, 1, 5, 5)).astype("f4")
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[2] * 4, group=32)
    path, shape = tmp_path_factory.mktemp("model") / "m.onnx", [1, 32, 14, 14]
    return save(path, [node], {"x": shape}, {"y": shape}, {"w": weight})


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Machine]]:
    """The seven, and the new ones after them."""
    if reason := why_not("chromium"):
        pytest.skip(reason)
    if not any(why_not(name) == "" for name in ("firefox", "firefox-esr")):
        pytest.skip("Firefox is not installed")
    folder = tmp_path_factory.mktemp("m")
    browsers = (*SEVEN, *["firefox"] * NEW)
    with contextlib.ExitStack() as stack:
        stack.enter_context(slow())
        networks = [stack.enter_context(network(n)) for n in range(len(browsers))]
        made = [n for n in networks if n is not None]
        if len(made) < len(browsers):
            pytest.skip("no networks can be made here")
        homes = [folder / str(n) for n in range(len(browsers))]
        for home in homes:
            home.mkdir()
        yield [
            Machine(n, browser, home, folder / "authority.pem")
            for n, browser, home in zip(made, browsers, homes, strict=True)
        ]


@contextlib.contextmanager
def slow() -> Iterator[None]:
    """Half of one processor for what is in the group."""
    group = CPU / SLOW
    try:
        group.mkdir()
    except OSError:
        pytest.skip("a processor cannot be divided here")
    try:
        (group / "cpu.cfs_period_us").write_text("2000")
        (group / "cpu.cfs_quota_us").write_text("1000")
        yield
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


@pytest.fixture(scope="module")
def seven(machines: list[Machine], model: Path) -> list[Machine]:
    """Each has tuned, or has what the first with its browser found."""
    measured: dict[str, Machine] = {}
    for number, machine in enumerate(machines[: len(SEVEN)]):
        browser = machine.browser.split()[-1]
        if ALL_MEASURE or browser not in measured:
            (found,) = machine.tune(model)[-1]["workloads"]
            assert found["rounds"] > MOST_ROUNDS
            measured[browser] = machine
        else:
            found_alike(machine, measured[browser], 1 + number / 100)
    return machines[: len(SEVEN)]


def found_alike(machine: Machine, other: Machine, slower: float) -> None:
    """A machine that found what another did, and was that much slower at everything."""
    (there,) = other.home.rglob("*.db")
    here = machine.home / there.relative_to(other.home)
    here.parent.mkdir(parents=True)
    with KernelDatabase.open_for_reading(there) as known, KernelDatabase.open(here) as own:
        for device in known.devices():
            own.commit_device(device)
        for record in reversed(known.all_records()):
            samples = tuple(ms * slower for ms in record.samples_ms)
            own.commit_record(replace(record, samples_ms=samples))


@pytest.fixture(scope="module")
def authority(machines: list[Machine]) -> trustme.CA:
    made = trustme.CA()
    made.cert_pem.write_to_path(machines[0].authority)
    return made


@pytest.mark.parametrize("url", ["sqlite", "postgres"][: 1 + ALL_MEASURE], indirect=True)
def test_a_new_machine_takes_what_seven_found(
    url: str, machines: list[Machine], seven: list[Machine], model: Path, authority: trustme.CA,
    tmp_path: Path,
) -> None:  # fmt: skip
    host = machines[0].network.here
    certificate, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    issued = authority.issue_cert(host)
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    with socket.create_server((host, 0)) as free:
        port = free.getsockname()[1]
    trusted = ssl.create_default_context(cafile=str(machines[0].authority))
    tls = ("--certificate", str(certificate), "--key", str(key))
    with running(url, port, host, *tls, verify=trusted) as server:
        assert server.startswith("https://")
        refused_without_trust(seven[0], server, tmp_path / "other.pem")
        for count, machine in enumerate(seven, 1):
            sent = machine.nnjit("share", "send", server, "--yes", "--json")
            assert sent.returncode == 0 and '"new": true' in sent.stdout, sent.stderr
            health = httpx2.get(f"{server}/health", verify=trusted).json()
            assert health["ballots"] == count
        believed = set.intersection(*map(named_by, seven[:ALIKE]))
        assert believed, "five agree on something"
        told = [asked(new, model, server) for new in machines[len(SEVEN) :]]
        assert all(first_tried(events) in believed for events in told), told
        if ALL_MEASURE:
            took = [rounds_of(events, believed) for events in told]
            assert statistics.median(took) <= MOST_ROUNDS, took
        alone = seven[ALIKE].nnjit("tune", model, "--from", server, *AT_ONCE)
        assert "The commons knows 0 of 1 workloads" in alone.stderr, alone.stderr


def named_by(machine: Machine) -> set[str]:
    """Settings that a machine's newest report names."""
    with patch.dict(os.environ, machine.environment(), clear=True):
        log = nnjit_here("share", "log", "--json").stdout
    report = json.loads(json.loads(log)[-1]["document"])
    (finding,) = report["report"]["findings"]
    return {timing["settings"] for timing in finding["best"]}


def refused_without_trust(machine: Machine, server: str, other: Path) -> None:
    """A server that another authority vouches for gets no report."""
    trustme.CA().cert_pem.write_to_path(other)
    words = (sys.executable, "-m", "nnjit_studio", "share", "send", server, "--yes")
    refused = subprocess.run(
        machine.network.command(*words),
        env=replace(machine, authority=other).environment(),
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert refused.returncode == 1 and "cannot be trusted" in refused.stderr, refused.stderr


def asked(machine: Machine, model: Path, server: str) -> list[dict[str, Any]]:
    """The session of a machine that knows nothing and asks the commons."""
    shutil.rmtree(machine.home / "nnjit-studio", ignore_errors=True)
    return machine.tune(model, "--from", server, all_of_it=ALL_MEASURE)


def first_tried(events: list[dict[str, Any]]) -> str:
    """What a session measured before all else."""
    return next(candidates_of(events))


def candidates_of(events: list[dict[str, Any]]) -> Iterator[str]:
    """What was measured, in its order."""
    tried = (e["candidate"] for e in events if e["event"] == "measured")
    return (settings for settings in tried if settings != "default")


def rounds_of(events: list[dict[str, Any]], believed: set[str]) -> float:
    """How many rounds until the end with what the crowd believes; no number is enough for a
    machine that cannot tell this from its default, and finds something else."""
    (found,) = events[-1]["workloads"]
    rounds: float = found["rounds"]
    return rounds if found["best"] in believed | {"default"} else math.inf
