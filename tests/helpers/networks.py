"""Networks of their own on this machine, each with one cable to it and an address of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_RUN = os.getpid() % 256


@dataclass(frozen=True)
class Network:
    """A namespace. No two lie in one block of addresses, by which a server tells sources apart."""

    name: str
    here: str
    """This machine's address, as seen from it."""
    there: str
    """Its own address."""

    def command(self, *words: object) -> list[str]:
        """The words of a command, run inside."""
        return ["ip", "netns", "exec", self.name, *map(str, words)]


def why_not(*programs: str) -> str:
    """Why there can be none on this machine, or one of the programs is missing; else empty."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "an address of its own needs Linux, and root"
    for program in ("ip", *programs):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return ""


@contextlib.contextmanager
def network(number: int = 0) -> Iterator[Network | None]:
    """A new network, removed at the end; None where none can be made."""
    name, subnet = f"nnjit{os.getpid() % 100000}-{number}", f"10.{213 + number}.{_RUN}"
    made = Network(name, f"{subnet}.1", f"{subnet}.2")
    # No address by IPv6: it is ready a second later, and a browser ends its requests at any change.
    commands = (
        f"ip netns add {name}",
        f"ip link add {name} type veth peer name cable netns {name}",
        f"ip link set {name} addrgenmode none",
        f"ip -n {name} link set cable addrgenmode none",
        f"ip addr add {made.here}/30 dev {name}",
        f"ip link set {name} up",
        f"ip -n {name} addr add {made.there}/30 dev cable",
        f"ip -n {name} link set cable up",
        f"ip -n {name} link set lo up",
        f"ip -n {name} route add default via {made.here}",
    )
    works = all(
        subprocess.run(command.split(), capture_output=True).returncode == 0 for command in commands
    )
    try:
        yield made if works else None
    finally:
        subprocess.run(["ip", "link", "del", name], capture_output=True)
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
