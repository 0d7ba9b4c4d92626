"""Verbs that look at a whole model while it runs: ``profile``, ``diff`` and ``faster``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from nnjit_studio.analysis.backends import BackendComparison
from nnjit_studio.analysis.backends import as_text as backends_text
from nnjit_studio.analysis.diff import TOLERANCE, Diff, details
from nnjit_studio.analysis.diff import as_text as diff_text
from nnjit_studio.analysis.profile.compare import as_csv, as_markdown, compare, load
from nnjit_studio.analysis.profile.compare import as_text as comparison_text
from nnjit_studio.analysis.profile.memory import as_text as memory_text
from nnjit_studio.analysis.profile.memory import renderer_memory
from nnjit_studio.analysis.profile.node_data import node_data
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.analysis.profile.text import as_text
from nnjit_studio.analysis.profile.trace import trace_events
from nnjit_studio.cli.common import INPUTS, JSON, MODEL, answer, note
from nnjit_studio.cli.import_options import IMPORTING, sizes_of_options
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import AT_LEAST_0, COUNT, group, option, same, verb
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.memory import check_fits, forecast, live_bytes
from nnjit_studio.records.backend import WASM
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.support.files import write_json
from nnjit_studio.workbench import jobs

TABLES = {"text": comparison_text, "markdown": as_markdown, "csv": as_csv}


@dataclass(frozen=True)
class ProfileOptions:
    """What is measured or read, and the files and tables that come of it."""

    runs: int = option(20, "Timed runs.", type=click.IntRange(1, 10_000))
    top: int | None = option(None, "Show only so many of the slowest steps.", type=COUNT)
    trace: Path | None = option(None, "Write Chrome trace events, for Perfetto.")
    save: Path | None = option(None, "Write the profile as JSON, for --compare.")
    explorer: Path | None = option(
        None,
        "Write milliseconds per ONNX node, as node data of Model Explorer.",
        flag="--model-explorer",
    )
    sizes: Mapping[str, tuple[int, ...]] = option(
        None,
        "Latency and memory at these sizes of an open dimension, from one import.",
        multiple=True,
        metavar="[NAME=]N,N,...",
        callback=sizes_of_options,
    )
    forecast: bool = option(False, "Only predict the memory that the model takes; needs no page.")
    other: Path | None = option(
        None, "Run nothing; compare two saved profiles, MODEL and this file.", flag="--compare"
    )
    table: str = option(
        "text", "Output format of --compare.", flag="--format", type=click.Choice([*TABLES])
    )
    inputs: Feeds | None = same(INPUTS)


@verb()
def profile(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    options: ProfileOptions = group(ProfileOptions),
    target: TargetOptions = target_options(),
    as_json: bool = JSON,
) -> None:
    """Profile every step with the best known kernels, cold and warm, and the memory.

    With --compare, show the difference of two saved profiles:
    nnjit profile A.json --compare B.json
    """
    if options.other is not None:
        print_comparison(model, options.other, options.table, as_json)
        return
    if options.forecast:
        print_forecast(model, importing, as_json)
        return
    if options.sizes:
        print_sizes(model, options, (importing, target), as_json)
        return
    for out in filter(None, (options.trace, options.save, options.explorer)):
        out.parent.mkdir(parents=True, exist_ok=True)  # what is refused is refused before the work
    with workbench(target, importing, opens=KernelDatabase.open_for_reading) as opened:
        bench = opened.bench

        def work() -> ModelProfile:
            bench.page.connect()  # the page is there before the model's cold start
            before = renderer_memory()
            bench.open_model(model, note, options.inputs)
            return jobs.profile(bench.model, note, options.runs, renderers_before=before)

        found = opened.run(work)
    write_files(found, options)
    answer(as_json, found.to_json(), as_text(found, options.top))


def write_files(found: ModelProfile, options: ProfileOptions) -> None:
    """The forms of a profile that options ask for."""
    for path, form in (
        (options.trace, trace_events),
        (options.save, ModelProfile.to_json),
        (options.explorer, node_data),
    ):
        if path is not None:
            write_json(path, form(found))
            note(f"wrote {path}")


def print_sizes(
    model: Path,
    options: ProfileOptions,
    settings: tuple[ImportOptions, TargetOptions],
    as_json: bool,
) -> None:
    """A row for each size; nothing of it is a profile of steps."""
    if options.trace or options.explorer or options.forecast:
        raise UserError(
            "With --sizes there are no times of steps.",
            "Leave out --trace, --model-explorer and --forecast, or profile one size with --dim.",
        )
    importing, target = settings
    with workbench(target, importing, opens=KernelDatabase.open_for_reading) as opened:
        bench = opened.bench
        found = opened.run(
            lambda: jobs.profile_sizes(
                bench, model, options.sizes, options.inputs, note, options.runs
            )
        )
    if options.save is not None:
        write_json(options.save, found.to_json())
        note(f"wrote {options.save}")
    answer(as_json, found.to_json(), found.as_text())


def print_comparison(before: Path, after: Path, table: str, as_json: bool) -> None:
    found = compare(load(before), load(after))
    answer(as_json, found.to_json(), TABLES[table](found).rstrip("\n"))


def print_forecast(model: Path, importing: ImportOptions, as_json: bool) -> None:
    """What the plan says, in bytes; a model that no page can hold is refused."""
    with closing(CompileProcess()) as process, tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.bin"
        plan = process.import_model(model, weights, note, importing).plan
    found = forecast(plan)
    check_fits(found)
    sums = {"total_bytes": found.total_bytes, "live_bytes": live_bytes(plan)}
    answer(as_json, {"ok": True, **asdict(found), **sums}, memory_text(found))


@verb()
def diff(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    top: int = option(20, "Tensors shown.", type=COUNT),
    node: str = option("", "Show only this tensor, step or ONNX node, in detail."),
    tolerance: float = option(
        TOLERANCE,
        "Largest error, relative to the tensor's scale, that still counts as equal.",
        type=AT_LEAST_0,
    ),
    inputs: Feeds | None = INPUTS,
    target: TargetOptions = target_options(),
    as_json: bool = JSON,
) -> None:
    """Compare every tensor of MODEL in the page with native ONNX Runtime, worst first.

    Exits with 1 when a tensor differs by more than the tolerance.
    """
    with workbench(target, importing, opens=KernelDatabase.open_for_reading) as opened:
        bench = opened.bench

        def work() -> Diff:
            bench.open_model(model, note, inputs)
            return jobs.diff(bench.model, node, note, tolerance)

        found = opened.run(work)
    answer(as_json, found.to_json(), details(found) if node else diff_text(found, top))
    if found.bad:
        sys.exit(1)


@verb()
def faster(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    runs: int = option(20, "Timed runs.", type=click.IntRange(2, 10_000)),
    top: int = option(20, "Steps shown.", type=COUNT),
    inputs: Feeds | None = INPUTS,
    target: TargetOptions = target_options("target", "gpu", "threads", "no_sandbox", "database"),
    as_json: bool = JSON,
) -> None:
    """Tell whether Wasm on --threads or WebGPU is faster here.

    Both run MODEL in the same page with their best known kernels, whole and step by step;
    transfers of inputs and outputs are timed apart, and the result says why one is faster. Steps
    divided between both are timed too where their times ask for it; if that is faster, MODEL runs
    so on WebGPU from now on.
    """
    with workbench(
        replace(target, backend="webgpu"), importing, opens=KernelDatabase.open_for_reading
    ) as opened:
        bench = opened.bench
        on_gpu = bench.page.backend

        def work() -> BackendComparison:
            jobs.use_backend(bench.model, WASM)
            bench.open_model(model, note, inputs)
            return jobs.compare_backends(bench.model, note, runs, on_gpu)

        found = opened.run(work)
    answer(as_json, found.to_json(), backends_text(found, top))
