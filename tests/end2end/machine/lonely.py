"""Runs a command on a machine without a network, whose name server notes what it is asked.

    python lonely.py NAMES COMMAND...

The machine is a network namespace with nothing but loopback, so no packet leaves it. Every
name that the command or its children look up is appended to the file NAMES, one a line, and
answered by "no such name". NAMES lies in a folder of its own, which is used for more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

SWITCH = ["--map-root-user"] if hasattr(os, "geteuid") and os.geteuid() != 0 else []
UNSHARE = ["unshare", *SWITCH, "--mount", "--net"]
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_NO_SUCH_NAME = 0x8183
"""A reply, recursion wanted and available, NXDOMAIN."""


def why_not() -> str:
    """Why this machine cannot make namespaces; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no namespaces here: {tried.stderr.strip()}"


def run(
    command: list[str], folder: Path, timeout_s: float, **variables: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run to the end; its output, and the names that it looked up.

    The command has a home and an environment of its own: of the variables of this process
    it sees only those that Python and Qt need, for some programs are silent where `CI`,
    `KUBERNETES_SERVICE_HOST` or their like is set.
    """
    names = folder / "names"
    names.write_text("")
    given = ("PATH", "PYTHONPATH", "PYTHONSAFEPATH", "LANG", "LC_ALL")
    home = {
        name: str(folder / name.lower())
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    for path in home.values():
        Path(path).mkdir(exist_ok=True)
    with subprocess.Popen(
        [*UNSHARE, sys.executable, str(Path(__file__).absolute()), str(names), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={
            **{name: os.environ[name] for name in given if name in os.environ},
            **home,
            "QT_QPA_PLATFORM": "offscreen",
            **variables,
        },
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    return done, names.read_text().split()


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _resolve_here(folder: Path) -> None:
    """Look names up in /etc/hosts, then at 127.0.0.1, and nowhere else, such as a local service."""
    files = {"resolv.conf": "nameserver 127.0.0.1\n", "nsswitch.conf": "hosts: files dns\n"}
    for name, text in files.items():
        system = Path("/etc", name)
        if system.exists():
            (folder / name).write_text(text)
            subprocess.run(["mount", "--bind", folder / name, system.resolve()], check=True)


def _answer(server: socket.socket, names: Path) -> None:
    with names.open("a") as file:
        while True:
            asked, client = server.recvfrom(4096)
            labels, at = [], 12
            while asked[at]:
                labels.append(asked[at + 1 : at + 1 + asked[at]].decode("ascii", "replace"))
                at += 1 + asked[at]
            print(".".join(labels), file=file, flush=True)
            head = struct.pack(">HHHHH", _NO_SUCH_NAME, 1, 0, 0, 0)
            server.sendto(asked[:2] + head + asked[12 : at + 5], client)


def main(names: Path, command: list[str]) -> int:
    _loopback_up()
    _resolve_here(names.parent)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))
        threading.Thread(target=_answer, args=(server, names), daemon=True).start()
        return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
