"""The choices of a user that say where and on what kernels run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TargetOptions:
    """A target, the backend and mode of its kernels, and the database of what is known."""

    target: str = "embedded"
    """``embedded``, ``chromium``, ``chrome``, ``edge``, ``firefox``, or the path of a browser."""
    backend: str = "wasm"
    """As of :func:`~nnjit_studio.records.backend.choose_backend`."""
    gpu: str = "auto"
    """As of :func:`~nnjit_studio.records.backend.choose_backend`."""
    threads: int = 1
    """How many a kernel may run on; of Wasm alone."""
    lab: str = ""
    """An experimental mode of the embedded engine (:mod:`nnjit_studio.records.lab`), or empty."""
    no_sandbox: bool = False
    """Whether the web engine runs without its sandbox."""
    database: Path | None = None
    """Path of the kernel database; None for the one in the user's data folder."""

    @property
    def embedded(self) -> bool:
        return self.target == "embedded"
