"""Benchmark pages on WebGPU: the adapter, the job, the rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onnx import helper

from nnjit_studio.bench.conditions import load_average, measured_now
from nnjit_studio.bench.options import BenchOptions, Note
from nnjit_studio.bench.server import serve, visit
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.gpu import GpuPage
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import UserError
from nnjit_studio.samples.small import port, save_model

GPU_PEERS = {
    "ort": ("onnxruntime-web",),
    "tfjs": (
        "@tensorflow/tfjs-core",
        "@tensorflow/tfjs-backend-cpu",
        "@tensorflow/tfjs-backend-webgpu",
    ),
}
"""npm packages of each peer on WebGPU."""


class BenchPage(GpuPage):
    """Also knows under which conditions it works."""

    def __init__(self, server: PageServer, folder: Path, running: browsers.RunningBrowser) -> None:
        super().__init__(server, folder)
        self._load_before = load_average()
        # Not before the page has answered: while a script becomes the browser, its line is empty.
        self._flags = flags_of(running)
        write_keep_alive(folder / "keep_alive.onnx")

    def document(self) -> dict[str, Any]:
        """The fields of a result about browser, adapter and machine."""
        return {
            "ok": True,
            "browser": self.adapter["user_agent"],
            "flags": self._flags,
            "adapter": self.told,
            **measured_now(self._load_before, self._server.done.get("versions", {})),
        }


@contextmanager
def gpu_page(page: str, options: BenchOptions, note: Note) -> Iterator[BenchPage]:
    """Open a page of ``resources/bench/gpu`` in a browser with WebGPU.

    Raises
    ------
    UserError
        When the results of a software adapter were to be published.
    TargetError, PageError
    """
    with serve(options) as server, visit(server, f"gpu/{page}.html", options) as running:
        opened = BenchPage(server, options.folder, running)
        adapter = opened.adapter
        if adapter["is_fallback"] and options.published:
            raise UserError(
                f"{adapter['description'] or 'The adapter'} is software: its figures say nothing "
                "of a GPU, and are not published.",
                "Leave out --markdown, or give a --target with a GPU.",
            )
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
