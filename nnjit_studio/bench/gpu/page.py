"""Benchmark pages on WebGPU: the adapter, the job, the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnx import helper

from nnjit_studio.bench.conditions import load_average, measured_now
from nnjit_studio.bench.options import BenchOptions, Note
from nnjit_studio.bench.peers.onnx_models import port, save_model
from nnjit_studio.bench.server import serve, visit
from nnjit_studio.device.gpu_constants import with_constants
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.messages.replies import read
from nnjit_studio.engine.pages.server import PageServer
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


_TOLD = (
    "vendor", "architecture", "device", "description", "driver", "is_fallback", "implementation",
    "features", "subgroup_min", "subgroup_max", "timestamp_quantum_ns",
)  # fmt: skip
"""What a result says of its adapter."""


class GpuPage:
    """A page that has reported its adapter and waits for its job.

    Attributes
    ----------
    adapter
        The page's report, in the words of ``gpu_probed`` (docs/webgpu.md).
    """

    def __init__(self, server: PageServer, folder: Path, adapter: dict[str, Any], flags: str):
        self._server = server
        self._folder = folder
        self._load_before = load_average()
        self._flags = flags
        self.adapter = adapter
        write_keep_alive(folder / "keep_alive.onnx")

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

    def document(self) -> dict[str, Any]:
        """The fields of a result about browser, adapter and machine."""
        return {
            "ok": True,
            "browser": self.adapter["user_agent"],
            "flags": self._flags,
            "adapter": {name: self.adapter[name] for name in _TOLD},
            **measured_now(self._load_before, self._server.done.get("versions", {})),
        }

    @property
    def profile(self) -> GpuProfile:
        """The adapter as the spaces want it."""
        return with_constants(read(self.adapter, GpuProfile))


@contextmanager
def gpu_page(page: str, options: BenchOptions, note: Note) -> Iterator[GpuPage]:
    """Open a page of ``resources/bench/gpu`` in a browser with WebGPU.

    Raises
    ------
    UserError
        When the results of a software adapter were to be published.
    TargetError, PageError
    """
    with serve(options) as server, visit(server, f"gpu/{page}.html", options) as running:
        adapter = server.next_message(START_TIMEOUT_S)
        if adapter["is_fallback"] and options.published:
            raise UserError(
                f"{adapter['description'] or 'The adapter'} is software: its figures say nothing "
                "of a GPU, and are not published.",
                "Leave out --markdown, or give a --target with a GPU.",
            )
        opened = GpuPage(server, options.folder, adapter, flags_of(running))
        note(f"adapter: {opened.profile.name}")
        yield opened


def write_keep_alive(path: Path) -> None:
    """A model whose session keeps ONNX Runtime Web's device between other sessions."""
    nodes = [helper.make_node("Relu", ["in0"], ["out0"])]
    save_model(path, nodes, [port("in0", (4,))], [port("out0", (4,))])


def flags_of(running: browsers.RunningBrowser) -> str:
    """What the browser really runs with: a ``--target`` may be a script that adds its own."""
    try:
        line = Path(f"/proc/{running.pid}/cmdline").read_text()
    except OSError:
        return running.flags
    words = line.replace("\0", " ").split()
    return " ".join(w for w in words if w.startswith("--") and "--user-data-dir" not in w)
