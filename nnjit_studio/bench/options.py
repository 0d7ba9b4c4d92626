"""Options that benchmarks in a browser share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Note = Callable[[str], None]
"""Gets a line of progress for a person."""


@dataclass(frozen=True)
class BenchOptions:
    """The browser of a benchmark's page, and the peers that are measured in the same page.

    Attributes
    ----------
    folder
        What the page reads as ``files/``.
    target
        Name or path of the browser.
    peers
        Short names of the peers, such as ``ort``.
    node_modules
        Folder of the peers' npm packages; None without peers.
    gpu
        One of ``GPU_MODES`` of :mod:`nnjit_studio.engine.browsers.flags`.
    published
        Whether the result goes to a file of results: a software adapter's does not.
    """

    folder: Path
    target: str = "chromium"
    peers: tuple[str, ...] = ()
    node_modules: Path | None = None
    no_sandbox: bool = False
    gpu: str = ""
    published: bool = False
