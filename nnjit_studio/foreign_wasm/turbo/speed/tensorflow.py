"""Operators of TensorFlow.js with every build of its module, in one page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nnjit_studio.engine.pages.opening import Opening
from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.turbo.models import ModelRun

CASES = {
    "matmul-384x768x768": ("matMul", (384, 768), (768, 768)),
    "matmul-640x768x3072": ("matMul", (640, 768), (768, 3072)),
    "matmul-128x384x1536": ("matMul", (128, 384), (384, 1536)),
    "matmul-384x768x768-relu": ("matMulRelu", (384, 768), (768, 768)),
    "row-768x3072": ("matMul", (1, 768), (768, 3072)),
    "conv-56x56x64-3x3": ("conv2d", (1, 56, 56, 64), (3, 3, 64, 64)),
    "conv-56x56x64-1x1": ("conv2d", (1, 56, 56, 64), (1, 1, 64, 64)),
    "depthwise-56x56x64-3x3": ("depthwiseConv2d", (1, 56, 56, 64), (3, 3, 64, 1)),
}
"""Operator of ``resources/bench/turbo/tensorflow.js`` and both operands (NHWC, HWIO)."""
_PREFIX, _THREADED = "tfjs-backend-wasm", "threaded"
_ROW_TIMEOUT_S = 300.0


def is_tensorflow(module: Path) -> bool:
    return module.stem.startswith(_PREFIX)


def run_operators(
    original: Path,
    builds: Mapping[str, Path],
    cases: Sequence[str],
    opening: Opening,
    folder: Path,
    policy: RoundsPolicy | None,
) -> Iterator[tuple[str, int, int, ModelRun]]:
    """Name, floating-point operations, threads and run of each case.

    The module decides on the threads: two with that for threads.

    Raises
    ------
    UserError
        When the module lies in no ``node_modules``, or there is no such case.
    """
    packages = original.resolve().parents[3]
    if packages.name != "node_modules" or not (packages / "@tensorflow/tfjs-core").is_dir():
        raise UserError(
            f"{original.name} does not lie in a node_modules with @tensorflow/tfjs-core.",
            "Give the module of node_modules/@tensorflow/tfjs-backend-wasm/dist.",
        )
    if unknown := [name for name in cases if name not in CASES]:
        raise UserError(f"There is no case {unknown[0]!r}.", f"Use {', '.join(CASES)}.")
    for build, path in builds.items():
        shutil.copyfile(path, folder / f"{build}.wasm")
    threads = 2 if _THREADED in original.stem else 1
    keys = ("operator", "a", "b")
    described = [{"name": n, **dict(zip(keys, CASES[n], strict=True))} for n in cases]
    job = {
        "builds": {build: f"{build}.wasm" for build in builds},
        "threads": threads,
        "cases": described,
        "policy": asdict(policy) if policy else None,
    }
    (folder / "job.json").write_text(json.dumps(job))
    with (
        PageServer({"files": folder, "node_modules": packages}) as server,
        opening(server, "turbo/tensorflow.html"),
    ):
        rows = list(server.rows(_ROW_TIMEOUT_S))
    about = server.done
    for row in rows:
        if set(row["threads"]) != {threads}:
            raise UserError(
                f"TensorFlow.js runs on {row['threads']} threads instead of {threads}.",
                "Measure on a machine with more cores.",
            )
        outputs = {
            build: {"y": np.frombuffer(server.uploads[f"{row['index']}-{build}"], np.float32)}
            for build in builds
        }
        run = ModelRun(outputs, row["samples_ms"], about["user_agent"], about["versions"])
        _, a, b = CASES[row["name"]]
        yield row["name"], _flops(a, b), threads, run


def _flops(a: Sequence[int], b: Sequence[int]) -> int:
    rows = int(np.prod(a[:-1]))
    return 2 * rows * int(np.prod(b))
