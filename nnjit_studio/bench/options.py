"""Options that benchmarks in a browser share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Note = Callable[[str], None]
"""Gets a line of progress for a person."""


@dataclass(frozen=True)
class BenchOptions:
    """The browser of a benchmark's page, and the peers that are measured in the same page."""

    folder: Path
    """What the page reads as ``files/``."""
    target: str = "chromium"
    """Name or path of the browser."""
    peers: tuple[str, ...] = ()
    """Short names of the peers, such as ``ort``."""
    node_modules: Path | None = None
    """Folder of the peers' npm packages; None without peers."""
    no_sandbox: bool = False
    gpu: str = ""
    """One of ``GPU_MODES`` of :mod:`nnjit_studio.engine.browsers.flags`."""
    published: bool = False
    """Whether the result goes to a file of results: a software adapter's does not."""
