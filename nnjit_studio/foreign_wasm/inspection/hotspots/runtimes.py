"""Jobs for the page that runs a model in somebody's runtime: the model, and inputs for it."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.foreign_wasm.inspection.hotspots.pages import Sampling, sample_runtime
from nnjit_studio.foreign_wasm.inspection.hotspots.records import Hotspots
from nnjit_studio.foreign_wasm.inspection.hotspots.samples import hotspots
from nnjit_studio.foreign_wasm.model_inputs import input_specs, read_model, written
from nnjit_studio.model.feeds import seeded_feeds
from nnjit_studio.model.given_shapes import GivenShapes
from nnjit_studio.verdict.case import Case, Entry, link
from nnjit_studio.verdict.measure import POLICY

RUNTIMES = ("ort",)
WARMUP_S = 2.0
"""Until V8 has compiled with its optimising compiler what runs often."""


def write_job(
    path: Path,
    folder: Path,
    shapes: GivenShapes,
    given: Mapping[str, NDArray[Any]] | None,
    seconds: float,
    threads: int,
) -> None:
    """Put a model, its inputs and ``job.json`` into the folder that the page reads.

    Our importer has no part in it: what the runtime takes is enough. Inputs that
    are not given are drawn.

    Raises
    ------
    ModelError
        When the model cannot be read, or the shape of an input is open.
    UserError
        When a given input has a type that is not passed on.
    """
    specs = input_specs(read_model(path), shapes)
    feeds = {**seeded_feeds(specs), **(given or {})}
    wanted = {spec.name: feeds[spec.name] for spec in specs}
    for file in path.parent.glob(f"{glob.escape(path.stem)}*"):
        if file.is_file() and (file.suffix != ".onnx" or file == path):
            link(file, folder / file.name)
    job = {
        "onnx": path.name,
        "inputs": written(wanted, folder),
        "threads": threads,
        "seconds": seconds,
        "warmup_s": WARMUP_S,
    }
    (folder / "job.json").write_text(json.dumps(job))


def sample_case(case: Case, entry: Entry, node_modules: Path, how: Sampling) -> Hotspots:
    """Sample one of a case's sessions in ONNX Runtime Web.

    Raises
    ------
    TargetError, PageError, WasmError
        When the browser does not start, the page fails, or its module cannot be read.
    """
    job = {
        **case.job(POLICY, None, watched=False),
        "onnx": entry.source,
        "external": entry.external,
        "wasm": entry.wasm,
        "seconds": how.seconds,
        "warmup_s": WARMUP_S,
    }
    (case.folder / "job.json").write_text(json.dumps(job))
    with PageServer({"files": case.folder, "node_modules": node_modules}) as server:
        samples = sample_runtime(server, "hotspots.html", how)
    return hotspots(browsers.version(how.browser), samples)
