"""A benchmark page on the GPU: its browser, its adapter, its job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from nnjit_studio import __version__
from nnjit_studio.bench.peers.kernels import load_average, utc_now
from nnjit_studio.bench.server import BenchServer
from nnjit_studio.device.gpu_constants import with_constants
from nnjit_studio.device.host import cpu_name
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.errors import UserError
from nnjit_studio.records.gpu_profile import GpuProfile

GPU_PEERS = {
    "ort": ("onnxruntime-web",),
    "tfjs": (
        "@tensorflow/tfjs-core",
        "@tensorflow/tfjs-backend-cpu",
        "@tensorflow/tfjs-backend-webgpu",
    ),
}
"""npm packages of each peer on WebGPU."""
START_TIMEOUT_S = 60.0
ROW_TIMEOUT_S = 300.0
"""Between two reports of the page; a software adapter is slow."""


class GpuPage:
    """A page that has told of its adapter and waits for its job.

    Attributes
    ----------
    adapter
        What the page told of it, in the words of ``gpu_probed`` (docs/webgpu.md).
    """

    def __init__(self, server: BenchServer, folder: Path, adapter: dict[str, Any], flags: str):
        self._server = server
        self._folder = folder
        self._load_before = load_average()
        self._flags = flags
        self.adapter = adapter

    def give(self, job: Mapping[str, Any]) -> None:
        """Write the job that the page waits for; the files that it names are there already."""
        part = self._folder / "job.part"
        part.write_text(json.dumps(job))
        part.replace(self._folder / "job.json")

    def rows(self) -> Iterator[dict[str, Any]]:
        """The page's ``row`` messages, until it is done."""
        while (message := self._server.next_message(ROW_TIMEOUT_S))["type"] != "done":
            if message["type"] == "row":
                yield message
        self._versions = message.get("versions", {})

    def upload(self, name: str) -> bytes:
        """What the page posted under that name; once."""
        return self._server.uploads.pop(name)

    def conditions(self) -> dict[str, Any]:
        """Everything that a result of this page needs beside its rows."""
        told = (
            "vendor",
            "architecture",
            "device",
            "description",
            "driver",
            "is_fallback",
            "implementation",
            "features",
            "subgroup_min",
            "subgroup_max",
            "timestamp_quantum_ns",
        )
        return {
            "ok": True,
            "date": utc_now(),
            "browser": self.adapter["user_agent"],
            "flags": self._flags,
            "adapter": {name: self.adapter[name] for name in told},
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "load_average": {"before": self._load_before, "after": load_average()},
            "versions": {"nnjit-studio": __version__, **self._versions},
        }

    @property
    def profile(self) -> GpuProfile:
        """The adapter as the spaces want it."""
        names = ("vendor", "architecture", "device", "description", "driver", "implementation")
        told = GpuProfile(
            **{name: self.adapter[name] for name in names},
            is_fallback=self.adapter["is_fallback"],
            features=tuple(self.adapter["features"]),
            language_features=tuple(self.adapter["language_features"]),
            limits=self.adapter["limits"],
            subgroup_min=self.adapter["subgroup_min"],
            subgroup_max=self.adapter["subgroup_max"],
            timestamp_quantum_ns=self.adapter["timestamp_quantum_ns"],
        )
        return with_constants(told)


@contextmanager
def gpu_page(
    page: str,
    folder: Path,
    target: str,
    node_modules: Path | None,
    no_sandbox: bool,
    published: bool,
    gpu: str = "hardware",
) -> Iterator[GpuPage]:
    """Open a page of ``resources/bench`` in a browser with WebGPU.

    Parameters
    ----------
    folder
        What the page reads as ``files/``.
    published
        Whether the results go to a file of results: a software adapter's do not.
    gpu
        One of ``GPU_MODES`` of :mod:`nnjit_studio.engine.browsers.flags`.

    Raises
    ------
    UserError
        When the results of a software adapter were to be published.
    TargetError, PageError
    """
    roots = {"files": folder} | ({"node_modules": node_modules} if node_modules else {})
    with ExitStack() as stack:
        server = stack.enter_context(BenchServer(roots))
        browser = browsers.find(target)
        running = stack.enter_context(
            browsers.launch(browser, server.url(page), no_sandbox, on_exit=server.fail, gpu=gpu)
        )
        adapter = server.next_message(START_TIMEOUT_S)
        if adapter["is_fallback"] and published:
            raise UserError(
                f"{adapter['description'] or 'The adapter'} is software: its figures say nothing "
                "of a GPU, and are not published.",
                "Leave out --markdown, or give a --target with a GPU.",
            )
        yield GpuPage(server, folder, adapter, flags_of(running))


def flags_of(running: browsers.RunningBrowser) -> str:
    """What the browser really runs with: a ``--target`` may be a script that adds its own."""
    try:
        line = Path(f"/proc/{running.pid}/cmdline").read_text()
    except OSError:
        return running.flags
    words = line.replace("\0", " ").split()
    return " ".join(w for w in words if w.startswith("--") and "--user-data-dir" not in w)
