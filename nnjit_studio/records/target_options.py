"""The choices of a user that say where and on what kernels run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEVICE = "device"
"""The target that is a device of the house."""


@dataclass(frozen=True)
class TargetOptions:
    """A target, the backend and mode of its kernels, and the database of what is known."""

    target: str = "embedded"
    """``embedded``, ``chromium``, ``chrome``, ``edge``, ``firefox``, the path of a browser,
    or ``device``: one of the house that joins, ``device:ID`` for a certain one."""
    backend: str = "wasm"
    """As of :func:`~nnjit_studio.records.backend.choose_backend`."""
    gpu: str = "auto"
    """As of :func:`~nnjit_studio.records.backend.choose_backend`."""
    threads: int = 1
    """How many a kernel may run on; of Wasm alone."""
    lab: str = ""
    """An experimental mode of the embedded engine (:mod:`nnjit_studio.records.lab`), or empty."""
    listen: str = ""
    """``ADDRESS[:PORT]`` of this machine on which a device joins; empty for the usual one."""
    no_sandbox: bool = False
    """Whether the web engine runs without its sandbox."""
    database: Path | None = None
    """Path of the kernel database; None for the one in the user's data folder."""

    @property
    def device(self) -> str | None:
        """Identity of the device of the house, empty for any; None where the target is none."""
        name, _, identity = self.target.partition(":")
        return identity if name == DEVICE else None

    @property
    def embedded(self) -> bool:
        return self.target == "embedded"
