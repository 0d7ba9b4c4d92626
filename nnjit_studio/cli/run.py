"""Verbs that use what tuning found: ``run``, ``export``, and ``verify`` of what that wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nnjit_studio.bundle import VerifyReport, verify_bundle
from nnjit_studio.cli.common import (
    INPUTS,
    JSON,
    MODEL,
    answer,
    database_path,
    load_inputs,
    note,
)
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import PATH, argument, option, verb
from nnjit_studio.errors import BundleError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records import DeviceProfile, Inference
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.support.files import replacing
from nnjit_studio.workbench import Workbench, jobs


@verb("run")
def run_model(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    inputs: Path | None = INPUTS,
    outputs: Path = option(None, "Write the outputs to this .npz file.", required=True),
    target: TargetOptions = target_options(),
    as_json: bool = JSON,
) -> None:
    """Run one inference in the target with the best known kernels."""
    feeds = load_inputs(inputs)
    with workbench(target, importing, read_only=True) as opened:
        bench = opened.bench

        def work() -> tuple[Inference, DeviceProfile]:
            bench.open_model(model, note, feeds)
            bench.model.register_best()
            return bench.model.infer(), bench.page.connect()

        result, device = opened.run(work)
        fallback = bench.page.fallback_reason
    arrays: dict[str, Any] = result.outputs
    outputs.parent.mkdir(parents=True, exist_ok=True)
    # A name alone would get a suffix of its own, so the file is opened here.
    with replacing(outputs) as part, part.open("wb") as file:
        np.savez(file, **arrays)
    document = {
        "ok": True,
        "outputs": {k: list(v.shape) for k, v in arrays.items()},
        "ms": result.runs_ms[-1],
        "target": device.label,
        "adapter": device.gpu.name if device.gpu else None,
        "fallback_reason": fallback,
    }
    if fallback and not as_json:
        note(f"{fallback} This ran in Wasm.")
    made = f"{', '.join(arrays)} ({result.runs_ms[-1]:.2f} ms)"
    answer(as_json, document, f"wrote {outputs}: {made}")


@verb()
def export(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    output: Path = option(None, flag="-o --output", required=True),
    webgpu: bool | None = option(
        None,
        "Include kernels for WebGPU; by default if the database has a winner on a GPU.",
        flag="--webgpu/--no-webgpu",
    ),
    inputs: Path | None = INPUTS,
    target: TargetOptions = target_options("threads", "database"),
    as_json: bool = JSON,
) -> None:
    """Write MODEL with its best known kernels as a bundle for any static server.

    Arrays of --inputs are stored in the bundle as sample inputs.
    """
    feeds = load_inputs(inputs)
    bench = Workbench(
        database_path(target.database), threads=target.threads, read_only=True, importing=importing
    )
    try:
        bench.open_offline(model, note, feeds)
        path = jobs.export(bench.model, output, webgpu=webgpu)
        tuned = sum(c is not None for c in bench.model.choose_known().values())
    finally:
        bench.close()
    report = whole(verify_bundle(path))
    document = {"ok": True, "path": str(path), "tuned": tuned, "files": report.files}
    answer(as_json, document, f"wrote {path}: {report.files} files, {tuned} tuned workloads")


@verb()
def verify(bundle: Path = argument(type=PATH), as_json: bool = JSON) -> None:
    """Check every byte of a bundle."""
    report = whole(verify_bundle(bundle))
    document = {"ok": True, "path": str(bundle), "files": report.files}
    answer(
        as_json, document, f"{bundle}: {report.files} files, {report.kernels} kernels, all right"
    )


def whole(report: VerifyReport) -> VerifyReport:
    """The report of a bundle without problems, else the problems as an error."""
    if not report.ok:
        raise BundleError(
            f"The bundle {str(report.path)!r} is damaged: {'; '.join(report.problems[:3])}",
            "Export it again.",
        )
    return report
