"""A page with WebGPU that tells of its adapter and then waits for a job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nnjit_studio.device.gpu_constants import with_constants
from nnjit_studio.engine.messages.replies import read
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.records.gpu_profile import GpuProfile

START_TIMEOUT_S = 60.0
ROW_TIMEOUT_S = 300.0
"""Between two reports of the page; a software adapter is slow."""
_TOLD = (
    "vendor", "architecture", "device", "description", "driver", "is_fallback", "implementation",
    "features", "subgroup_min", "subgroup_max", "timestamp_quantum_ns",
)  # fmt: skip
"""What a result says of its adapter."""


class GpuPage:
    """A page that was opened on ``server``; made when it has told of its adapter.

    Attributes
    ----------
    adapter
        The page's report, in the words of ``gpu_probed`` (docs/webgpu.md).

    Raises
    ------
    PageError
        When it has none.
    """

    def __init__(self, server: PageServer, folder: Path) -> None:
        self._server, self._folder = server, folder
        self.adapter: dict[str, Any] = server.next_message(START_TIMEOUT_S)

    def rows(self, job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Give the page its job and yield its ``row`` messages, until it is done.

        The files that the job names are there already.
        """
        part = self._folder / "job.part"
        part.write_text(json.dumps(job))
        part.replace(self._folder / "job.json")
        yield from self._server.rows(ROW_TIMEOUT_S)

    def upload(self, name: str) -> bytes:
        """What the page posted under that name; once."""
        return self._server.uploads.pop(name)

    @property
    def told(self) -> dict[str, Any]:
        """What a result says of the adapter."""
        return {name: self.adapter[name] for name in _TOLD}

    @property
    def profile(self) -> GpuProfile:
        """The adapter as the spaces want it."""
        return with_constants(read(self.adapter, GpuProfile))
