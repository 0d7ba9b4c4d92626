"""This process: the cores that it may use, and on Linux what it started, read from ``/proc``."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def usable_cores() -> int:
    """Cores that this process may run on, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def renderers() -> list[int]:
    """Ids of the processes that run the pages of QtWebEngine and Chromium for this process.

    Empty where none is found, or where the system has no ``/proc``.
    """
    children = _children()
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        parent = waiting.pop()
        born = children.get(parent, [])
        # A zygote in a namespace forks another zygote, which has children where a page has none.
        found += [pid for pid in born if pid not in children and _renders(pid, parent)]
        waiting += born
    return found


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and that those started."""
    children = _children()
    found: list[int] = []
    waiting = [pid]
    while waiting:
        born = children.get(waiting.pop(), [])
        found += born
        waiting += born
    return found


def peak_bytes(pid: int) -> int:
    """The most resident memory that a process ever had; 0 where the system does not tell."""
    words = status(pid).get("VmHWM", "").split()
    return int(words[0]) * 1024 if words else 0


def status(pid: int | str) -> dict[str, str]:
    """The fields of ``/proc/PID/status`` by name; empty when the process has ended."""
    return parse_status(_read(_PROC / str(pid) / "status"))


def parse_status(text: str) -> dict[str, str]:
    """Fields by name, without the space around them."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


def _children() -> dict[int, list[int]]:
    """Process ids by their parent's."""
    children: dict[int, list[int]] = {}
    for stat in _PROC.glob("[0-9]*/stat"):
        # pid (name) state parent ...: the name may hold anything
        fields = _read(stat).rpartition(")")[2].split()
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    return children


def _renders(pid: int, parent: int) -> bool:
    """Whether it is a renderer, by its own word or as what a zygote forked: QtWebEngine's
    keep the zygote's command line. The zygote without a sandbox forks other helpers.
    """
    kind, of_parent = _kind(pid), _kind(parent)
    forked = kind == of_parent == "zygote" and "--no-zygote-sandbox" not in _words(parent)
    return kind == "renderer" or forked


def _kind(pid: int) -> str:
    kinds = [w.removeprefix("--type=") for w in _words(pid) if w.startswith("--type=")]
    return kinds[0] if kinds else ""


def _words(pid: int) -> list[str]:
    return _read(_PROC / str(pid) / "cmdline").replace("\0", " ").split(" ")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process ended meanwhile
        return ""
