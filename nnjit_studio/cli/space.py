"""The verb ``space``: the settings of a kernel that are worth a try, and why."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from textwrap import indent
from typing import Any

import click

from nnjit_studio.cli.common import JSON, note, print_json
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.kernel import HELP, UNKNOWN_GPU, assumed_device
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import argument, option, verb
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.spelling import looks_like_spec
from nnjit_studio.device.gpu_constants import CONSTANTS
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions, Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate
from nnjit_studio.space import build_lite_space, explain
from nnjit_studio.support.tables import text_table


@verb(
    help=f"List the lite space of WORKLOAD, or of each tunable workload of MODEL (.onnx).\n\n{HELP}"
)
def space(
    importing: ImportOptions = IMPORTING,
    subject: str = argument(metavar="WORKLOAD|MODEL"),
    settings: str | None = option(
        None,
        "Explain rule by rule why this candidate is in the space or not.",
        flag="--explain",
        metavar="CANDIDATE",
    ),
    backend: str = OPTIONS["backend"],
    on: str = option(
        UNKNOWN_GPU,
        "For WebGPU: a GPU whose typical limits and constants are assumed.",
        type=click.Choice((UNKNOWN_GPU, *filter(None, CONSTANTS))),
    ),
    as_json: bool = JSON,
) -> None:
    candidate = None if settings is None else parse_candidate(settings)
    device = assumed_device(backend, on)
    found = _workloads(subject, importing)
    rows = [_space_row(w, packable, device, candidate) for w, packable in found]
    if as_json:
        print_json({"ok": True, "device": _facts(device), "workloads": rows})
        return
    if device.gpu is not None:
        facts = ", ".join(f"{name} {value}" for name, value in _facts(device).items())
        click.echo(f"a typical GPU, not probed: {facts}")
    for row in rows:
        packable = row["packable"] and device.gpu is None
        click.echo(
            f"{row['workload']}: {len(row['candidates'])} candidates of {row['naive_size']:,} "
            f"({'B packable' if packable else 'B row-major'})"
        )
        if candidate is None:
            print_candidates(row["candidates"])
        elif row["explain"]:
            cells = [("in" if v["ok"] else "OUT", v["rule"], v["text"]) for v in row["explain"]]
            click.echo(indent(text_table(("", "", ""), cells, left=range(3)), "  "))


def print_candidates(entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        click.echo(
            f"  {entry['candidate']}\n      {entry['registers']} elements in registers, "
            f"{entry['l1_bytes']:,} bytes of L1, blocks a core: {entry['blocks_per_core']}"
            f"\n      {entry['reason']}"
        )


def _workloads(subject: str, importing: ImportOptions) -> list[tuple[Workload, bool]]:
    with closing(CompileProcess()) as process:
        if looks_like_spec(subject):
            found = [process.define(subject)]
        else:
            with tempfile.TemporaryDirectory() as folder:
                weights = Path(folder) / "weights.bin"
                model = process.import_model(Path(subject), weights, note, importing)
            found = [(w, w.key in model.packable) for w in model.workloads]
    found = [(w, packable) for w, packable in found if w.tunable]
    if not found:
        raise UserError(f"{subject!r} has no tunable workload.", "Try a model with a MatMul.")
    return found


def _facts(device: DeviceProfile) -> dict[str, Any]:
    gpu = device.gpu
    if gpu is None:
        names = ("device_id", "vector_registers", "l1_bytes", "l2_bytes")
        return {name: getattr(device, name) for name in names}
    names = ("cores", "registers_per_core", "registers_per_thread", "threads_per_core")
    facts = {name: getattr(gpu, name) for name in (*names, "shared_bytes_per_core", "warp")}
    workgroup_bytes = gpu.limit("maxComputeWorkgroupStorageSize")
    return {"device_id": device.device_id, **facts, "workgroup_bytes": workgroup_bytes}


def _space_row(
    workload: Workload, packable: bool, device: DeviceProfile, candidate: AnyCandidate | None
) -> dict[str, Any]:
    built = build_lite_space(workload, device, packable)
    verdicts = [] if candidate is None else explain(candidate, workload, device, packable)
    return {
        "workload": workload.name,
        "packable": packable,
        "naive_size": built.naive_size,
        "candidates": [
            {
                "candidate": str(e.candidate),
                "reason": e.reason,
                "varies": e.varies,
                "registers": e.usage.registers,
                "l1_bytes": e.usage.l1_bytes,
                "blocks_per_core": e.usage.blocks_per_core,
            }
            for e in built.entries
        ],
        "explain": [{"rule": v.rule, "ok": v.ok, "text": v.text} for v in verdicts],
    }
