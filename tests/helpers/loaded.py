"""Processes that are forked from one which has loaded the Studio, in place of fresh Pythons.

A Python that has read the command line and TVM is half of what a short verb takes, and a run of
all tests would start some hundreds. What a process of its own is for stays: it has an address
space, limits and an end of its own. Tests of the start itself, and of strangers' files, take
fresh ones. Not carried over: umask, limits, and variables that Python reads at its start.

As a program this file is the server: it has one thread, so that it can be forked, and ends with its
standard input. Each process that was asked for has a watcher, which says how it ended and ends
it when the one who asked says so or is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

MODULES = (
    "nnjit_studio.compiler.importer",
    "nnjit_studio.compiler.process.handlers.experiments",
    "nnjit_studio.compiler.process.handlers.kernels",
    "nnjit_studio.compiler.process.handlers.models",
    "nnjit_studio.cli.main",
    "nnjit_studio.cli.bench.main",
    "nnjit_studio.cli.generate",
    "nnjit_studio.cli.kernel",
    "nnjit_studio.cli.profile",
    "nnjit_studio.cli.run",
    "nnjit_studio.cli.tune",
    "nnjit_studio.cli.verdict.advise",
    "nnjit_studio.cli.verdict.compare",
    "nnjit_studio.ui.page.headless",
    "numpy.random",
    "scipy.linalg",
    "scipy.special",
)
"""What most verbs read: a verb with a page takes a second of processor time to load itself."""
OF_THE_GPU = "nnjit_studio.engine.gpu_bridge.device"
"""Reads the declarations of wgpu-native, which is most of the start of a process of the GPU."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
CAN_FORK = sys.platform == "linux"
"""Elsewhere sockets of packets and descriptors of processes are missing: processes are fresh."""
LARGEST = 1 << 17
"""Bytes of a message; one that is larger is an error of its sender."""
ADDRESS = "NNJIT_TESTS_LOADED"
"""Variable in which the workers of a run find the server of all."""
_address = os.environ.get(ADDRESS, "")
_starting = threading.Lock()


class Forked:
    """A started process, as ``multiprocessing`` has them: what is asked for, and its files."""

    exitcode: int | None = None

    def __init__(self, job: dict[str, Any], files: Sequence[int]) -> None:
        self._lock = threading.Lock()
        self._watcher = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._close = weakref.finalize(self, self._watcher.close)
        self._watcher.connect(served())
        place = {"variables": dict(os.environ), "folder": os.getcwd(), "address": served()}
        socket.send_fds(self._watcher, [json.dumps(job | place).encode()], files)
        said = self._watcher.recv(LARGEST)
        if not said:
            raise RuntimeError("The server that tests fork from has ended; its stderr says why.")
        self.pid = int(said)

    def is_alive(self) -> bool:
        self.join(0.0)
        return self.exitcode is None

    def join(self, timeout_s: float | None = None) -> None:
        with self._lock:
            if self.exitcode is None and select.select([self._watcher], [], [], timeout_s)[0]:
                self.exitcode = int(self._watcher.recv(LARGEST))
                self._close()

    def close(self) -> None:
        self._close()

    def kill(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self._watcher.send(b"kill")


def compile_process(pipe: Connection, *arguments: Any) -> Forked:
    """In place of ``child.spawned``."""
    job = {"verb": "compile", "arguments": arguments}
    return Forked(job, [0, 1, 2, pipe.fileno()])


def gpu_process(link: socket.socket, *arguments: str) -> Forked:
    """In place of ``bridge.spawned``."""
    return Forked({"verb": "gpu", "arguments": arguments}, [0, 1, 2, link.fileno()])


def begun(words: Sequence[str], out: int, err: int, network: str = "", group: str = "") -> Forked:
    """``nnjit`` with these words, in a session of its own.

    Parameters
    ----------
    network
        Of ``ip netns``; this machine's without.
    group
        The file of a control group that it joins, if any.
    """
    job = {"verb": "nnjit", "arguments": words, "network": network, "group": group}
    return Forked(job, [0, out, err])


def command(words: list[str], timeout_s: float, **place: str) -> subprocess.CompletedProcess[str]:
    """What :func:`begun` begins, run to its end; standard output and error as text."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = begun(words, out.fileno(), err.fileno(), **place)
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["nnjit", *words], timeout_s)
        assert process.exitcode is not None
        for file in (out, err):
            file.seek(0)
        said = (file.read().decode() for file in (out, err))
        return subprocess.CompletedProcess(["nnjit", *words], process.exitcode, *said)


def served() -> str:
    """Where the server listens, which is started by the first who asks, if this run has none.

    It loads on; who connects meanwhile waits.
    """
    global _address
    with _starting:
        if not _address:
            address = str(Path(tempfile.mkdtemp(prefix="nnjit-loaded-"), "socket"))
            server = subprocess.Popen(
                [sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                start_new_session=True, env=os.environ | ONE_THREAD,
            )  # fmt: skip
            assert server.stdin and server.stdout
            assert server.stdout.readline() == b"ready\n"
            server.stdout.close()
            weakref.finalize(_starting, _end, server)  # at the end of this process
            _address = address
        return _address


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin
    server.stdin.close()
    server.wait()


def _serve(address: str) -> Callable[[], object]:
    """Ends in a forked process alone: with what it is to do."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        importlib.import_module("nnjit_studio.support.garbage").look_seldom()
        for name in MODULES:
            importlib.import_module(name)
        with contextlib.suppress(ImportError, OSError):  # wgpu may be missing
            importlib.import_module(OF_THE_GPU)
        assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
        gc.collect()
        gc.freeze()  # a search for garbage would copy every page that the processes share
        while 0 not in (readable := select.select([listener, 0], [], [], 1.0)[0]):
            if readable:
                connection, _ = listener.accept()
                if os.fork() == 0:
                    listener.close()
                    return _watch(connection)
                connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    os.unlink(address)
    os.rmdir(Path(address).parent)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    sys.exit()


def _watch(connection: socket.socket) -> Callable[[], object]:
    said, files, _, _ = socket.recv_fds(connection, LARGEST, 4)
    for number, file in zip(range(3), files, strict=False):
        os.dup2(file, number)
        os.close(file)
    del files[:3]
    pid = os.fork()
    if pid == 0:
        connection.close()
        return _job(json.loads(said), files)
    for file in (0, 1, 2, *files):
        os.close(file)
    connection.send(str(pid).encode())
    if connection in select.select([connection, os.pidfd_open(pid)], [], [])[0]:
        with contextlib.suppress(ProcessLookupError):  # it leads no group: a process of a command
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
        while connection.recv(LARGEST):
            pass  # a message unread at the end of this process would be an error of its sender
    os._exit(0)


def _job(job: dict[str, Any], files: Sequence[int]) -> Callable[[], object]:
    """What a shell and the start of Python do for a process."""
    global _address
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["variables"])
    tempfile.tempdir, _address = None, job["address"]
    from nnjit_studio.cli.main import main
    from nnjit_studio.compiler.process import child, worker
    from nnjit_studio.engine.gpu_bridge import bridge, process

    child.spawned = compile_process  # type: ignore[assignment]
    bridge.spawned = gpu_process  # type: ignore[assignment]
    # Else a second import would search all that the processes share, and so copy it: 0.5 s.
    gc.unfreeze = lambda: None
    if job["verb"] == "compile":
        return partial(worker.serve, Connection(files[0]), *job["arguments"])
    if job["verb"] == "gpu":
        return partial(process.serve, socket.socket(fileno=files[0]), *job["arguments"])
    os.setsid()
    if job["network"]:
        with open(f"/run/netns/{job['network']}") as network:
            entered = ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0)
            assert entered == 0, os.strerror(ctypes.get_errno())
    if job["group"]:
        Path(job["group"]).write_text("0")
    sys.argv = ["nnjit", *job["arguments"]]
    return main


def _done(work: Callable[[], object]) -> None:
    """Ends as a Python does, but takes no module apart: that would copy all that the processes
    share, which is most of what a short verb costs."""
    code: object = 0
    try:
        work()
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            raise
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python's own end
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    # The folder of this file; with PYTHONSAFEPATH it is not the first, which is another checkout's.
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(__file__)]
    _done(_serve(sys.argv[1]))
