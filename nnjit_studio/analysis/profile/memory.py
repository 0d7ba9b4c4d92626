"""A profiled model's memory: measured in the page and its processes, and as text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.model.memory import Forecast


@dataclass(frozen=True)
class MeasuredMemory:
    """Memory after the profiled runs.

    Attributes
    ----------
    wasm_bytes
        Of the engine's linear memory, as the page said.
    renderer_bytes, renderer_peak_bytes
        How much more of the machine's memory the page's processes hold now than before the
        model, and held at their peak; None where the system does not tell (only Linux does,
        and only of a page on this machine).
    live_bytes
        Of the arena, for each plan step: what tensors that are still needed take.
    """

    forecast: Forecast
    wasm_bytes: int
    renderer_bytes: int | None
    renderer_peak_bytes: int | None
    live_bytes: tuple[int, ...]


def renderer_memory() -> tuple[int, int] | None:
    """Resident bytes, now and at their peak, of the renderers that this process started.

    Renderers run the pages of QtWebEngine and Chromium. None where none is found, or
    where the system has no ``/proc``.
    """
    found = [_resident(pid) for pid, parent in _descendants(os.getpid()) if _renders(pid, parent)]
    known = [pair for pair in found if pair]
    return (sum(now for now, _ in known), sum(peak for _, peak in known)) if known else None


def _descendants(pid: int) -> Iterator[tuple[int, int]]:
    """Process ids, each with its parent's."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # pid (name) state parent ...: the name may hold anything
        fields = _read(stat).rpartition(")")[2].split()
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        found = children.get(parent, [])
        yield from ((child, parent) for child in found)
        waiting += found


def _renders(pid: int, parent: int) -> bool:
    """Whether it is a renderer, by its own word or as what a zygote forked: QtWebEngine's
    keep the zygote's command line.
    """
    kind, of_parent = _kind(pid), _kind(parent)
    return kind == "renderer" or kind == of_parent == "zygote"


def _kind(pid: int) -> str:
    words = _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").split(" ")
    kinds = [w.removeprefix("--type=") for w in words if w.startswith("--type=")]
    return kinds[0] if kinds else ""


def _resident(pid: int) -> tuple[int, int] | None:
    lines = dict(
        line.split(":", 1)
        for line in _read(Path(f"/proc/{pid}/status")).splitlines()
        if ":" in line
    )
    sizes = [lines[name].split() for name in ("VmRSS", "VmHWM") if name in lines]
    return (int(sizes[0][0]) * 1024, int(sizes[1][0]) * 1024) if len(sizes) == 2 else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process ended meanwhile
        return ""


def as_text(found: Forecast) -> str:
    """The forecast for people."""
    rows = {
        "weights": found.weights_bytes,
        "arena": found.arena_bytes,
        "state": found.state_bytes,
        "Wasm memory": found.wasm_bytes,
        "copies in JavaScript": found.js_bytes,
        "together": found.total_bytes,
    }
    lines = [f"{name:<22} {nbytes / 2**20:10.2f} MiB" for name, nbytes in rows.items()]
    gap = found.arena_bytes - found.peak_live_bytes
    lines.append(
        f"Tensors need at most {found.peak_live_bytes / 2**20:.2f} MiB of the arena at one step; "
        f"{gap / 2**20:.2f} MiB are gaps between them."
    )
    return "\n".join(lines)
