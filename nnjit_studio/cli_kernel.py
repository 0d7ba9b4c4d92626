"""Verbs that look at one kernel without a page: ``compile`` and ``space``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli_common import compile_process, json_option, note, print_json
from nnjit_studio.cli_shapes import shape_options
from nnjit_studio.compiler.builders import SPELLING, looks_like_spec
from nnjit_studio.compiler.pipeline import OPTIONAL_PASSES, PASSES
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.graph import Workload
from nnjit_studio.link.device import host_profile
from nnjit_studio.space import Candidate, build_lite_space, explain
from nnjit_studio.space.candidate import DEFAULT_SETTINGS, settings_of
from nnjit_studio.space.records import TIERS, DeviceProfile

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


def parse_candidate(text: str) -> Candidate | None:
    return None if text == DEFAULT_SETTINGS else Candidate.parse(text)


@click.command(
    name="compile", help=f"Compile one kernel: bytes or text, ms of each pass.\n\n{HELP}"
)
@click.argument("workload")
@click.option(
    "--candidate",
    "settings",
    default=DEFAULT_SETTINGS,
    show_default=True,
    help="Settings such as x0=8,y0=6,r0=4,x1=8,y1=6,r1=768; `nnjit space` lists them.",
)
@click.option("--tier", type=click.Choice(TIERS), default=TIERS[-1], show_default=True)
@click.option("--passes", help="Optional passes to run: none, or a comma list; all by default.")
@click.option("--dump-after", metavar="PASS", help="Print the text form after this pass.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the Wasm module.")
@json_option
def compile_kernel(
    workload: str,
    settings: str,
    tier: str,
    passes: str | None,
    dump_after: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    candidate = parse_candidate(settings)
    chosen = parse_passes(passes)
    if dump_after is not None:
        check_pass(dump_after, PASSES)
    with compile_process() as compiler:
        defined, _ = compiler.define(workload)
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
            }
        )
    elif dump_after:
        click.echo(dump, nl=False)
    else:
        for name, ms in result.pass_ms.items():
            click.echo(f"{name:<24} {ms:8.3f} ms")
        click.echo(f"{'settings to bytes':<24} {result.ms:8.3f} ms  {len(kernel.data)} bytes")


@click.command(
    help=f"The lite space of WORKLOAD, or of each tunable workload of a MODEL (.onnx).\n\n{HELP}"
)
@shape_options
@click.argument("subject", metavar="WORKLOAD|MODEL")
@click.option("--explain", "settings", metavar="CANDIDATE", help="Why it is in or out, by rule.")
@json_option
def space(subject: str, settings: str | None, as_json: bool) -> None:
    candidate = None if settings is None else Candidate.parse(settings)
    device = host_profile()
    rows = [_space_row(w, p, device, candidate) for w, p in _workloads(subject)]
    if as_json:
        facts = ("device_id", "vector_registers", "l1_bytes", "l2_bytes")
        print_json(
            {
                "ok": True,
                "device": {name: getattr(device, name) for name in facts},
                "workloads": rows,
            }
        )
        return
    for row in rows:
        click.echo(
            f"{row['workload']}: {len(row['candidates'])} candidates of {row['naive_size']:,} "
            f"({'B packable' if row['packable'] else 'B row-major'})"
        )
        for verdict in row["explain"]:
            click.echo(
                f"  {'in ' if verdict['ok'] else 'OUT'}  {verdict['rule']:<14} {verdict['text']}"
            )
        if candidate is None:
            for entry in row["candidates"]:
                click.echo(
                    f"  {entry['candidate']}\n      {entry['registers']} elements in registers, "
                    f"{entry['l1_bytes']:,} bytes of L1, {entry['blocks_per_core']} block a core"
                    f"\n      {entry['reason']}"
                )


def _workloads(subject: str) -> list[tuple[Workload, bool]]:
    with compile_process() as compiler:
        if looks_like_spec(subject):
            found = [compiler.define(subject)]
        else:
            with tempfile.TemporaryDirectory() as folder:
                model = compiler.import_model(Path(subject), Path(folder) / "weights.bin", note)
            found = [(w, w.key in model.packable) for w in model.workloads]
    found = [(w, packable) for w, packable in found if w.tunable]
    if not found:
        raise UserError(f"{subject!r} has no tunable workload.", "Try a model with a MatMul.")
    return found


def _space_row(
    workload: Workload, packable: bool, device: DeviceProfile, candidate: Candidate | None
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
