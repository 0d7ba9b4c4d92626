"""A model in ONNX Runtime Web with several builds of its module, in one page."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.engine.pages.opening import Opening
from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.model_inputs import written

PAGE_TIMEOUT_S = 600.0
_SCRIPTS = {"": "wasm", "jsep": "all", "jspi": "jspi", "asyncify": "webgpu"}
"""Script of ONNX Runtime Web, ``ort.NAME.min.mjs``, that loads a flavour of the module."""
_STEM = "ort-wasm-simd-threaded"


@dataclass(frozen=True)
class Runtime:
    """The files of an installed onnxruntime-web that belong to one flavour of its module."""

    dist: Path
    script: str
    glue: str


@dataclass(frozen=True)
class ModelRun:
    """What a page told.

    Attributes
    ----------
    outputs
        Of each build, by name.
    samples_ms
        Of each build; in turns, empty without timing.
    """

    outputs: Mapping[str, Mapping[str, NDArray[Any]]]
    samples_ms: Mapping[str, Sequence[float]]
    browser: str
    versions: Mapping[str, str]


def runtime_of(module: Path) -> Runtime:
    """The runtime that a module belongs to: the folder that it lies in.

    Raises
    ------
    UserError
        When it is not a module in the ``dist`` folder of onnxruntime-web.
    """
    stem, _, flavour = module.stem.partition(".")
    script = f"ort.{_SCRIPTS.get(flavour, '')}.min.mjs"
    runtime = Runtime(module.parent, script, f"{module.stem}.mjs")
    if stem != _STEM or not all((module.parent / f).is_file() for f in (script, runtime.glue)):
        raise UserError(
            f"{module.name} does not lie in the dist folder of an onnxruntime-web, "
            "so no model can be run with it.",
            "Give the module of node_modules/onnxruntime-web/dist.",
        )
    return runtime


def run_model(
    runtime: Runtime,
    builds: Mapping[str, Path],
    model: Path,
    feeds: Mapping[str, NDArray[Any]],
    opening: Opening,
    threads: int = 1,
    policy: RoundsPolicy | None = None,
) -> ModelRun:
    """Run a model with every build, and time them in turns when there is a policy.

    Raises
    ------
    UserError
        When an input has a type that is not passed on, or the browser gives fewer threads.
    TargetError, PageError
    """
    with tempfile.TemporaryDirectory(prefix="nnjit-turbo-") as name:
        folder = Path(name)
        for build, path in builds.items():
            shutil.copyfile(path, folder / f"{build}.wasm")
        shutil.copyfile(model, folder / "model.onnx")
        job = {
            "script": runtime.script,
            "glue": runtime.glue,
            "builds": {build: f"{build}.wasm" for build in builds},
            "threads": threads,
            "onnx": "model.onnx",
            "inputs": written(feeds, folder),
            "policy": asdict(policy) if policy else None,
        }
        (folder / "job.json").write_text(json.dumps(job))
        with (
            PageServer({"files": folder, "dist": runtime.dist}) as server,
            opening(server, "turbo/models.html"),
        ):
            told = server.next_message(PAGE_TIMEOUT_S)
    if set(told["threads"]) != {threads}:
        raise UserError(
            f"ONNX Runtime Web does not run on {threads} threads in this browser, "
            f"but on {min(told['threads'])}.",
            "Measure with --threads 1 there, or in another browser.",
        )
    outputs = {
        build: {
            o["name"]: np.frombuffer(server.uploads[f"{build}-{n}"], o["type"]).reshape(o["dims"])
            for n, o in enumerate(told["outputs"][build])
        }
        for build in builds
    }
    return ModelRun(outputs, told["samples_ms"], told["user_agent"], told["versions"])


def differences(run: ModelRun, build: str, original: str) -> dict[str, float]:
    """Of each output the largest difference over the largest value; 0 when all bits are equal."""
    found: dict[str, float] = {}
    for name, expected in run.outputs[original].items():
        got = run.outputs[build][name]
        if got.tobytes() == expected.tobytes():
            found[name] = 0.0
            continue
        wide, reference = got.astype(np.float64), expected.astype(np.float64)
        scale = float(np.max(np.abs(reference), initial=0.0)) or 1.0
        # Equal values may differ in bits: zeros of both signs, NaNs.
        worst = float(np.max(np.abs(wide - reference), initial=0.0)) / scale
        found[name] = max(worst, float(np.finfo(np.float64).tiny))
    return found
