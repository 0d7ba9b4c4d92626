"""Verbs that look at one kernel without a page: ``compile`` and ``space``."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from nnjit_studio.analysis.kernel import inspect_kernel, inspection_json, inspection_text
from nnjit_studio.cli.common import backend_option, compile_process, json_option, note, print_json
from nnjit_studio.cli.import_options import shape_options
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, PASSES
from nnjit_studio.compiler.pipeline.wgsl import WGSL_PASSES
from nnjit_studio.compiler.spelling import SPELLING, looks_like_spec
from nnjit_studio.device.gpu_constants import CONSTANTS, typical
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import GPU_TIERS, TIERS, DeviceProfile
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate
from nnjit_studio.space import build_lite_space, explain

EMIT = "emit"
"""The pass after which a WebGPU kernel is WGSL."""
UNKNOWN_GPU = "unknown"

# \b keeps click from filling the lines of the table.
HELP = "\b\n" + SPELLING.replace("\n\n", "\n\n\b\n")


def parse_passes(text: str | None) -> tuple[str, ...] | None:
    """``none`` or a comma list; None, for all passes, without the option."""
    if text is None:
        return None
    chosen = () if text == "none" else tuple(filter(None, text.replace(" ", "").split(",")))
    for name in chosen:
        check_pass(name, OPTIONAL_PASSES)
    return chosen


def check_pass(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UserError(f"There is no pass {name!r} to choose.", f"Use {', '.join(known)}.")


def parse_settings(text: str) -> AnyCandidate | None:
    return None if text == DEFAULT_SETTINGS else parse_candidate(text)


def tier_of(backend: str, tier: str | None) -> str:
    """The tier asked for, or the backend's plain one.

    Raises
    ------
    UserError
        When the tier is the other backend's.
    """
    own = GPU_TIERS if backend == "webgpu" else TIERS
    if tier is None:
        return own[0] if backend == "webgpu" else own[-1]
    if tier not in own:
        raise UserError(
            f"The tier {tier} is not one of --backend {backend}.", f"Use {', '.join(own)}."
        )
    return tier


def assumed_device(backend: str, on: str) -> DeviceProfile:
    """This machine as it tells of itself, with a GPU of the table for WebGPU."""
    host = host_profile()
    if backend != "webgpu":
        return host
    gpu = typical("" if on == UNKNOWN_GPU else on)
    return replace(host, gpu=gpu, tiers=GPU_TIERS[:1], device_id=on)


@click.command(
    name="compile",
    help="Compile one kernel: bytes or text, ms of each pass. Of a MODEL (.onnx) --changes lists "
    f"the graph passes, and --dump-after prints the graph after one.\n\n{HELP}",
)
@shape_options
@click.argument("workload", metavar="WORKLOAD|MODEL")
@click.option(
    "--candidate",
    "settings",
    default=DEFAULT_SETTINGS,
    show_default=True,
    help="Settings such as x0=8,y0=6,r0=4,x1=8,y1=6,r1=768; `nnjit space` lists them.",
)
@backend_option
@click.option("--tier", type=click.Choice((*TIERS, *GPU_TIERS)), help="The backend's by default.")
@click.option("--passes", help="Optional passes to run: none, or a comma list; all by default.")
@click.option("--dump-after", metavar="PASS", help="Print the text form after this pass.")
@click.option(
    "--changes",
    is_flag=True,
    help="Print what each pass changed, and the numbers of the lite space.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the Wasm module, or the kernel document of WebGPU.",
)
@json_option
def compile_kernel(
    workload: str,
    settings: str,
    backend: str,
    tier: str | None,
    passes: str | None,
    dump_after: str | None,
    changes: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    if _is_model(workload):
        _graph_passes(Path(workload), dump_after, changes, as_json)
        return
    candidate = parse_settings(settings)
    chosen = parse_passes(passes)
    tier = tier_of(backend, tier)
    if dump_after is not None:
        check_pass(dump_after, WGSL_PASSES if backend == "webgpu" else PASSES)
    elif backend == "webgpu" and not changes:
        dump_after = EMIT
    if changes and (passes is not None or dump_after is not None):
        raise UserError("--changes shows all passes.", "Leave out --passes and --dump-after.")
    inspected: dict[str, Any] = {}
    with compile_process() as compiler:
        defined, packable = compiler.define(workload)
        if changes:
            device = replace(assumed_device(backend, UNKNOWN_GPU), tiers=(tier,))
            found = inspect_kernel(compiler, defined, candidate, device, packable)
            if not as_json:
                click.echo(inspection_text(found), nl=False)
            inspected = {"changes": inspection_json(found)}
        # The first compilation loads code and reads the program; its time says nothing.
        compiler.compile(defined, candidate, (tier,), chosen)
        result = compiler.compile(defined, candidate, (tier,), chosen)
        if result.error:
            raise CompileError(result.error)
        dump = compiler.dump(defined, candidate, tier, dump_after, chosen) if dump_after else ""
    kernel = result.kernels[0]
    if output is not None:
        output.write_bytes(kernel.data)
        note(f"wrote {output}")
    if as_json:
        print_json(
            {
                "ok": True,
                "workload": defined.name,
                "candidate": settings_of(candidate),
                "tier": tier,
                "ms": result.ms,
                "pass_ms": result.pass_ms,
                "nbytes": len(kernel.data),
                "sha256": kernel.sha256,
                "panels": [list(p) for p in kernel.panels],
                "parallel_extent": kernel.parallel_extent,
                "dump": dump,
                **inspected,
            }
        )
        return
    if dump_after:
        click.echo(dump, nl=False)
    if not dump_after or backend == "webgpu":
        for name, ms in result.pass_ms.items():
            click.echo(f"{name:<24} {ms:8.3f} ms")
        click.echo(f"{'settings to bytes':<24} {result.ms:8.3f} ms  {len(kernel.data)} bytes")


def _is_model(subject: str) -> bool:
    return not looks_like_spec(subject) and Path(subject).suffix == ".onnx"


def _graph_passes(path: Path, dump_after: str | None, changes: bool, as_json: bool) -> None:
    """What the passes of an import did to a model, or the model after one of them."""
    if (dump_after is None) != changes:
        raise UserError(
            f"{path.name!r} is a model; kernels are compiled from a workload.",
            "Give --changes for its graph passes, or --dump-after with the name of one.",
        )
    with compile_process() as compiler:
        if dump_after is not None:
            text = compiler.graph_text(path, dump_after)
            if as_json:
                print_json({"ok": True, "model": path.name, "pass": dump_after, "dump": text})
            else:
                click.echo(text, nl=False)
            return
        with tempfile.TemporaryDirectory() as folder:
            model = compiler.import_model(path, Path(folder) / "weights.bin", note)
    passes = (model.gpu or model).graph.passes
    if as_json:
        print_json({"ok": True, "model": path.name, "passes": [asdict(p) for p in passes]})
        return
    for p in passes:
        click.echo(f"{p.name:<24} {p.before:>6} -> {p.after:<6} {p.unit}")


@click.command(
    help=f"The lite space of WORKLOAD, or of each tunable workload of a MODEL (.onnx).\n\n{HELP}"
)
@shape_options
@click.argument("subject", metavar="WORKLOAD|MODEL")
@click.option("--explain", "settings", metavar="CANDIDATE", help="Why it is in or out, by rule.")
@backend_option
@click.option(
    "--on",
    type=click.Choice((UNKNOWN_GPU, *filter(None, CONSTANTS))),
    default=UNKNOWN_GPU,
    show_default=True,
    help="WebGPU: the GPU whose typical limits and constants are taken.",
)
@json_option
def space(subject: str, settings: str | None, backend: str, on: str, as_json: bool) -> None:
    candidate = None if settings is None else parse_candidate(settings)
    device = assumed_device(backend, on)
    rows = [
        _space_row(w, p, device, candidate) for w, p in _workloads(subject, device.gpu is not None)
    ]
    if as_json:
        print_json({"ok": True, "device": _facts(device), "workloads": rows})
        return
    if device.gpu is not None:
        facts = ", ".join(f"{name} {value}" for name, value in _facts(device).items())
        click.echo(f"a typical GPU, not probed: {facts}")
    for row in rows:
        click.echo(
            f"{row['workload']}: {len(row['candidates'])} candidates of {row['naive_size']:,} "
            f"({'B packable' if row['packable'] and device.gpu is None else 'B row-major'})"
        )
        for verdict in row["explain"]:
            click.echo(
                f"  {'in ' if verdict['ok'] else 'OUT'}  {verdict['rule']:<14} {verdict['text']}"
            )
        if candidate is None:
            for entry in row["candidates"]:
                click.echo(
                    f"  {entry['candidate']}\n      {entry['registers']} elements in registers, "
                    f"{entry['l1_bytes']:,} bytes of L1, blocks a core: {entry['blocks_per_core']}"
                    f"\n      {entry['reason']}"
                )


def _workloads(subject: str, on_gpu: bool) -> list[tuple[Workload, bool]]:
    with compile_process() as compiler:
        if looks_like_spec(subject):
            found = [compiler.define(subject)]
        else:
            with tempfile.TemporaryDirectory() as folder:
                model = compiler.import_model(Path(subject), Path(folder) / "weights.bin", note)
            model = (model.gpu if on_gpu else None) or model
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
