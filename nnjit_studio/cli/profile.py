"""Verbs that look at a whole model while it runs: ``profile`` and ``diff``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from nnjit_studio.analysis.diff import TOLERANCE
from nnjit_studio.cli.common import (
    backend_options,
    compile_process,
    database_option,
    inputs_option,
    json_option,
    lab_option,
    load_inputs,
    model_argument,
    note,
    print_json,
    sandbox_option,
    say,
    target_option,
    threads_option,
    workbench,
)
from nnjit_studio.support.files import write_json

TABLES = ("text", "markdown", "csv")


@click.command()
@model_argument
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--top", type=click.IntRange(1), help="Only the slowest steps, in the table.")
@click.option("--trace", type=click.Path(path_type=Path), help="Chrome trace events, for Perfetto.")
@click.option("--save", type=click.Path(path_type=Path), help="The profile as JSON, for --compare.")
@click.option(
    "--model-explorer",
    "explorer",
    type=click.Path(path_type=Path),
    help="Milliseconds by ONNX node, as node data of Model Explorer.",
)
@click.option(
    "--forecast", is_flag=True, help="Only what the model will take in memory; needs no page."
)
@click.option(
    "--compare",
    "other",
    type=click.Path(path_type=Path),
    help="No run: MODEL and this file are profiles, first and second.",
)
@click.option(
    "--format",
    "table",
    type=click.Choice(TABLES),
    default=TABLES[0],
    show_default=True,
    help="How --compare prints.",
)
@inputs_option
@target_option
@backend_options
@threads_option
@lab_option
@sandbox_option
@database_option
@json_option
def profile(
    model: Path,
    runs: int,
    top: int | None,
    trace: Path | None,
    save: Path | None,
    explorer: Path | None,
    forecast: bool,
    other: Path | None,
    table: str,
    inputs: Path | None,
    target: str,
    backend: str,
    gpu: str,
    threads: int,
    lab: str,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Times of every step with the best known kernels, cold and warm apart, and memory.

    With --compare, the difference of two saved profiles: nnjit profile A.json --compare B.json
    """
    from nnjit_studio.analysis.profile import as_text, node_data, renderer_memory, trace_events
    from nnjit_studio.workbench.jobs import profile as profile_open

    if other is not None:
        print_comparison(model, other, table, as_json)
        return
    if forecast:
        print_forecast(model, as_json)
        return
    feeds = load_inputs(inputs)
    for out in filter(None, (trace, save, explorer)):
        out.parent.mkdir(parents=True, exist_ok=True)  # what is refused is refused before the work
    with workbench(target, database, no_sandbox, threads, lab, True, backend, gpu) as (bench, run):

        def work() -> Any:
            bench.page.connect()  # the page is there before the model's cold start
            before = renderer_memory()
            bench.open_model(model, note, feeds)
            return profile_open(bench.model, note, runs, renderers_before=before)

        found = run(work)
    document = found.to_json()
    files: Mapping[Path | None, Any] = {
        trace: trace_events(found),
        save: document,
        explorer: node_data(found),
    }
    for path, content in files.items():
        if path is not None:
            write_json(path, content)
            note(f"wrote {path}")
    if as_json:
        print_json(document)
    else:
        say(as_text(found, top))


def print_comparison(before: Path, after: Path, table: str, as_json: bool) -> None:
    from nnjit_studio.analysis.profile.compare import as_csv, as_markdown, as_text, compare, load

    found = compare(load(before), load(after))
    if as_json:
        print_json(found.to_json())
    else:
        writers = {"text": as_text, "markdown": as_markdown, "csv": as_csv}
        say(writers[table](found).rstrip("\n"))


def print_forecast(model: Path, as_json: bool) -> None:
    """What the plan says, in bytes; a model that no page can hold is refused."""
    import tempfile
    from dataclasses import asdict

    from nnjit_studio.analysis.profile.memory import as_text
    from nnjit_studio.model.memory import check_fits, forecast, live_bytes

    with compile_process() as compiler, tempfile.TemporaryDirectory() as folder:
        plan = compiler.import_model(model, Path(folder) / "weights.bin", note).plan
    found = forecast(plan)
    check_fits(found)
    if as_json:
        live = live_bytes(plan)
        print_json(
            {"ok": True, **asdict(found), "total_bytes": found.total_bytes, "live_bytes": live}
        )
    else:
        say(as_text(found))


@click.command()
@model_argument
@click.option("--top", default=20, show_default=True, type=click.IntRange(1))
@click.option("--node", default="", help="Only this tensor, step or ONNX node, in full.")
@click.option(
    "--tolerance",
    default=TOLERANCE,
    show_default=True,
    type=click.FloatRange(0),
    help="Largest error that is no difference, relative to the tensor's scale.",
)
@inputs_option
@target_option
@backend_options
@threads_option
@lab_option
@sandbox_option
@database_option
@json_option
def diff(
    model: Path,
    top: int,
    node: str,
    tolerance: float,
    inputs: Path | None,
    target: str,
    backend: str,
    gpu: str,
    threads: int,
    lab: str,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Every tensor of MODEL in the page against native ONNX Runtime, the worst first.

    Ends with 1 when a tensor differs by more than the tolerance.
    """
    from nnjit_studio.analysis.diff import as_text, details
    from nnjit_studio.workbench.jobs import diff as compared

    feeds = load_inputs(inputs)
    with workbench(target, database, no_sandbox, threads, lab, True, backend, gpu) as (bench, run):

        def work() -> Any:
            bench.open_model(model, note, feeds)
            return compared(bench.model, node, note, tolerance)

        found = run(work)
    if as_json:
        print_json(found.to_json())
    else:
        say(details(found) if node else as_text(found, top))
    if found.bad:
        sys.exit(1)
