"""Jobs over a real Dask cluster of this machine, with workers that die."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.fleet.cluster import Place, connected
from nnjit_studio.fleet.jobs import Ended, Job, Outcome, Progressed, Started
from nnjit_studio.fleet.run import run


def test_twenty_jobs_end_once_though_two_of_four_workers_die(tmp_path: Path) -> None:
    def do(job: Job, content: bytes | None, tell: Callable[[str], None]) -> Outcome:
        """Each job waits for its file, so that the test says which are at work."""
        import time

        tell("at work")
        while not (tmp_path / "go").exists():
            time.sleep(0.01)
        return Outcome({"job": job.number}, records=b"records")

    jobs = [Job(i, "tune", tmp_path / f"{i}.onnx") for i in range(20)]
    began, told, ends = Counter[Job](), set[Job](), list[Ended]()
    with connected(Place(workers=4)) as client:
        for event in run(client, jobs, send_files=False, do=do):
            match event:
                case Started():
                    began[event.job] += 1
                    assert event.attempt == began[event.job]
                case Progressed():
                    told.add(event.job)
                case Ended():
                    ends.append(event)
            if len(told) == 4 and not (tmp_path / "go").exists():
                for pid in list(client.run(os.getpid).values())[:2]:
                    os.kill(pid, signal.SIGKILL)
                (tmp_path / "go").touch()
    assert sorted(e.job.number for e in ends) == list(range(20))
    assert all(e.outcome.summary == {"job": e.job.number} for e in ends)
    assert all(e.worker and not e.outcome.error for e in ends)
    assert sum(began.values()) == 22


def test_the_cluster_of_this_machine_speaks_tls_on_loopback() -> None:
    """Also where another program has the port that Dask likes to take."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", 8787)))
        client = stack.enter_context(connected(Place(workers=1)))
        addresses = [client.scheduler.address, *client.scheduler_info()["workers"]]
    assert all(a.startswith("tls://127.0.0.1:") for a in addresses)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (Place("tcp://192.0.2.1:8786"), "cross a network without TLS"),
        (Place("tcp://fleet.example:8786"), "cross a network without TLS"),
        (Place("tls://192.0.2.1:8786"), "needs three files"),
    ],
)
def test_nothing_crosses_a_network_in_the_clear(place: Place, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence), connected(place):
        pass
