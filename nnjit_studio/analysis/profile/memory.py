"""A profiled model's memory: measured in the page and its processes, and as text."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.model.memory import Forecast
from nnjit_studio.support.processes import renderers, status
from nnjit_studio.support.tables import text_table


@dataclass(frozen=True)
class MeasuredMemory:
    """Memory after the profiled runs."""

    forecast: Forecast
    wasm_bytes: int
    """Of the engine's linear memory, as the page said."""
    renderer_bytes: int | None
    """How much more of the machine's memory the page's processes hold now than before the model;
    None where the system does not tell (only Linux does, and only of a page on this machine)."""
    renderer_peak_bytes: int | None
    """The same at their peak."""
    live_bytes: tuple[int, ...]
    """Of the arena, for each plan step: what tensors that are still needed take."""


def renderer_memory() -> tuple[int, int] | None:
    """Resident bytes, now and at their peak, of the renderers that this process started.

    Renderers run the pages of QtWebEngine and Chromium. None where none is found, or
    where the system has no ``/proc``.
    """
    found = [_resident(pid) for pid in renderers()]
    known = [pair for pair in found if pair]
    return (sum(now for now, _ in known), sum(peak for _, peak in known)) if known else None


def _resident(pid: int) -> tuple[int, int] | None:
    fields = status(pid)
    sizes = [fields[name].split() for name in ("VmRSS", "VmHWM") if name in fields]
    return (int(sizes[0][0]) * 1024, int(sizes[1][0]) * 1024) if len(sizes) == 2 else None


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
    sizes = ((name, f"{nbytes / 2**20:.2f} MiB") for name, nbytes in rows.items())
    lines = [text_table(("", ""), sizes)]
    gap = found.arena_bytes - found.peak_live_bytes
    lines.append(
        f"Tensors need at most {found.peak_live_bytes / 2**20:.2f} MiB of the arena at one step; "
        f"{gap / 2**20:.2f} MiB are gaps between them."
    )
    return "\n".join(lines)
