"""``nnjit bench``: kernels compared with their peers, compile times, the gain by the passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.bench.gpu import dispatches, gemv4, kernels_on_gpu
from nnjit_studio.cli.bench.llm import llama
from nnjit_studio.cli.bench.options import (
    PeerOptions,
    adapter_option,
    markdown_option,
    peer_options,
    publish,
    scratch,
)
from nnjit_studio.cli.common import (
    backend_options,
    budget_option,
    compile_process,
    inputs_option,
    json_option,
    load_inputs,
    model_argument,
    note,
    sandbox_option,
    target_option,
    threads_option,
    workbench,
)
from nnjit_studio.cli.import_options import import_options
from nnjit_studio.errors import BugError, UserError


@click.group()
def bench() -> None:
    """Measure kernels and models against their peers, compile times, the gain by the passes."""


@bench.command()
@click.option("--backend", type=click.Choice(["wasm", "webgpu"]), default="wasm", show_default=True)
@click.option("--shapes", help="Names such as K0, or workloads; see `nnjit compile --help`.")
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option(
    "--tune",
    "seconds",
    type=click.FloatRange(0.5),
    default=15.0,
    show_default=True,
    help="At most so many seconds of trying candidates, for each shape; of wasm.",
)
@click.option(
    "--candidates",
    type=click.IntRange(1),
    help="Of webgpu: try the first so many of each space, not all.",
)
@click.option(
    "--native",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Of webgpu: what benchmarks/cublas.py wrote, for a column of its own.",
)
@adapter_option
@peer_options("ort,tfjs", "ort, tfjs")
def kernels(
    backend: str,
    shapes: str | None,
    threads: int,
    seconds: float,
    candidates: int | None,
    native: Path | None,
    gpu: str,
    given: PeerOptions,
) -> None:
    """Kernels of the lite spaces' best candidates and the peers, in one browser page.

    All are called as a page would call them: our session's and ONNX Runtime's
    `await session.run(feeds)`, TensorFlow.js's `tf.matMul` with `dataSync`.
    On webgpu: GPU time by timestamps around each compute pass, one product per submit and
    many per pass, and the page's time of the same calls.
    """
    if backend == "webgpu":
        kernels_on_gpu(shapes, candidates, native, gpu, given)
        return
    from nnjit_studio.bench.peers import kernels as job
    from nnjit_studio.bench.peers.tables import kernels_report

    wanted, peers = job.parse_shapes(shapes), job.parse_peers(given.peers)
    node_modules, versions = job.find_node_modules(peers, given.node_modules)
    with scratch() as folder:
        database = folder / "kernels.db"
        with workbench(given.target, database, given.no_sandbox, threads) as (opened, run):

            def tune() -> tuple[list[job.Prepared], dict[str, float]]:
                prepared = job.prepare(opened, wanted, seconds, folder, note)
                return prepared, job.peak_gflops(opened)

            prepared, peak = run(tune)
        options = replace(given.browser(folder), peers=tuple(peers), node_modules=node_modules)
        result = job.compare(prepared, threads, peak, options, note)
    result["versions"] |= versions
    publish(result, kernels_report, given.markdown, given.as_json)


@bench.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--threads", default="1,2", show_default=True, help="Comma list of thread counts.")
@click.option(
    "--tune",
    "seconds",
    type=click.FloatRange(0.5),
    default=20.0,
    show_default=True,
    help="Seconds of tuning, for each model and thread count.",
)
@click.option("--cold", default=3, show_default=True, help="Cold starts of each contender.")
@import_options
@peer_options("ort", "ort")
def models(
    files: tuple[Path, ...], threads: str, seconds: float, cold: int, given: PeerOptions
) -> None:
    """Whole models, tuned, and ONNX Runtime Web: speed, memory, cold start.

    FILES are .onnx models; `nnjit sample` writes some. Both run in turns in one page, called
    as a page would call them; each cold start is a page of its own in a fresh browser.
    """
    from nnjit_studio.bench.peers import models as job
    from nnjit_studio.bench.peers.kernels import find_node_modules
    from nnjit_studio.bench.peers.tables import models_report

    peers = job.parse_peers(given.peers)
    node_modules, versions = find_node_modules(peers, given.node_modules)
    rows = []
    for count in _thread_counts(threads):
        for file in files:
            with scratch() as folder:
                database = folder / "kernels.db"
                with workbench(given.target, database, given.no_sandbox, count) as (opened, run):
                    model = run(partial(job.prepare, opened, file, seconds, folder))
                options = given.browser(folder)
                options = replace(options, peers=tuple(peers), node_modules=node_modules)
                row = job.compare(model, count, options, cold)
            note(job.row_text(row))
            rows.append(row)
    result = job.document(rows, versions)
    publish(result, models_report, given.markdown, given.as_json)


def _thread_counts(text: str) -> list[int]:
    words = text.split(",")
    if not all(w.isdigit() and 1 <= int(w) <= 64 for w in words):
        raise UserError(f"--threads {text!r} is no list of counts.", "Give it such as 1,2.")
    return [int(w) for w in words]


bench.add_command(dispatches)
bench.add_command(gemv4)
bench.add_command(llama)


@bench.command(name="compile")
@click.option("--shapes", default="K0,K1,K2,K3", show_default=True, help="Names or workloads.")
@click.option("--ours-only", is_flag=True, help="Leave TVM + LLVM + wasm-ld and emcc out.")
@markdown_option
@json_option
def compile_times(shapes: str, ours_only: bool, markdown: Path | None, as_json: bool) -> None:
    """Compile times of all candidates, and those of TVM + LLVM + wasm-ld and + emcc."""
    from nnjit_studio.bench.peers.compile_times import bench_compile
    from nnjit_studio.bench.peers.kernels import parse_shapes
    from nnjit_studio.bench.peers.tables import compile_report

    wanted = parse_shapes(shapes)
    with compile_process() as compiler:
        result = bench_compile(compiler, wanted, note, not ours_only)
    publish(result, compile_report, markdown, as_json)


@bench.command()
@click.argument("workload", default="K0")
@click.option(
    "--candidate",
    "settings",
    default="x0=8,y0=6,r0=4,x1=8,y1=6,r1=768",
    show_default=True,
)
@target_option
@markdown_option
@sandbox_option
@json_option
def passes(
    workload: str,
    settings: str,
    target: str,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> None:
    """Compile and kernel times with passes switched off, after Table 5 of the paper."""
    from nnjit_studio.bench.peers.kernels import parse_shapes
    from nnjit_studio.bench.peers.passes import bench_passes
    from nnjit_studio.bench.peers.tables import passes_report
    from nnjit_studio.records.candidate import Candidate

    ((_, spec),) = parse_shapes(workload)
    candidate = Candidate.parse(settings)
    with scratch() as folder, workbench(target, folder / "kernels.db", no_sandbox) as (opened, run):
        result = run(lambda: bench_passes(opened, spec, candidate, note))
    publish(result, passes_report, markdown, as_json)


@bench.command()
@model_argument
@click.option("--seconds", type=click.FloatRange(1), default=60.0, show_default=True)
@click.option(
    "--interval",
    "interval_ms",
    type=click.FloatRange(0),
    default=0.0,
    help="Ms from one request to the next; by default each follows the last answer.",
)
@budget_option
@threads_option
@target_option
@inputs_option
@markdown_option
@sandbox_option
@json_option
def serving(
    model: Path,
    seconds: float,
    interval_ms: float,
    budget: float,
    threads: int,
    target: str,
    inputs: Path | None,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> None:
    """Latency of MODEL while it serves, with tuning and without, in blocks of one session."""
    from nnjit_studio.bench.tuner.serving import bench_serving
    from nnjit_studio.bench.tuner.tables import serving_report
    from nnjit_studio.records.serving import ServeOptions

    feeds = load_inputs(inputs)
    options = ServeOptions(interval_ms, budget / 100)
    with scratch() as folder:
        database = folder / "kernels.db"
        with workbench(target, database, no_sandbox, threads) as (opened, run):
            result = run(lambda: bench_serving(opened, model, feeds, seconds, options, note))
    publish(result, serving_report, markdown, as_json)


@bench.command()
@click.option("--shapes", help="The first so many, or names or workloads; all 30 by default.")
@click.option(
    "--wide",
    "times",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help="How many times the lite space the larger one is.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="Within so many the best should be found.",
)
@threads_option
@target_option
@backend_options
@markdown_option
@sandbox_option
@json_option
def regret(
    shapes: str | None,
    times: int,
    rounds: int,
    threads: int,
    target: str,
    backend: str,
    gpu: str,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> None:
    """A cold tuning session compared with exhaustive search of the lite and a wider space."""
    from nnjit_studio.bench.tuner.regret import bench_regret, parse_shapes
    from nnjit_studio.bench.tuner.tables import regret_report

    wanted = parse_shapes(shapes)
    with (
        scratch() as folder,
        workbench(target, folder / "kernels.db", no_sandbox, threads, backend=backend, gpu=gpu) as (
            opened,
            run,
        ),
    ):
        result = run(lambda: bench_regret(opened, wanted, times, rounds, note))
    publish(result, regret_report, markdown, as_json)


def checked_bounds() -> None:
    """Have the embedded engine check each access in code, from its start on.

    Without this an access beyond the memory ends QtWebEngine's process (6.12
    lacks the signal handler that Chromium has); right kernels make none, and
    are slower with it.
    """
    name = "QTWEBENGINE_CHROMIUM_FLAGS"
    os.environ[name] = f"{os.environ.get(name, '')} --disable-features=WebAssemblyTrapHandler"


def mutants_apart(count: int, threads: int, no_sandbox: bool) -> dict[str, Any]:
    """The wrong kernels in a process of their own: the engine takes its flags but once."""
    program = "from nnjit_studio.cli.main import main; main()"
    words = ["bench", "duels", "--aa=0", "--slower=0", "--faster=0", f"--mutants={count}"]
    words += [f"--threads={threads}", "--json", *(["--no-sandbox"] if no_sandbox else [])]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True, check=False
    )
    try:
        result = json.loads(done.stdout)
        return dict(result["mutants"])
    except (ValueError, KeyError, TypeError) as e:
        raise BugError(f"The wrong kernels were not judged: {done.stdout[:300]!r}.") from e


@bench.command()
@click.option("--aa", type=click.IntRange(0), default=1000, show_default=True)
@click.option("--slower", type=click.IntRange(0), default=200, show_default=True)
@click.option("--faster", type=click.IntRange(0), default=200, show_default=True)
@click.option("--mutants", type=click.IntRange(0), default=500, show_default=True)
@threads_option
@target_option
@markdown_option
@sandbox_option
@json_option
def duels(
    aa: int,
    slower: int,
    faster: int,
    mutants: int,
    threads: int,
    target: str,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> None:
    """How often a swap is decided right: a kernel against itself, 5 % slower, 5 % faster, wrong.

    The options say how many duels of each, and how many wrong kernels; 0 leaves a part out.
    """
    from nnjit_studio.bench.tuner import duels as job

    if not aa + slower + faster + mutants:
        raise UserError("There is nothing to do.", "Give --aa, --slower, --faster or --mutants.")
    apart = 0
    if target == "embedded" and mutants:
        if aa + slower + faster:
            apart, mutants = mutants, 0
        else:
            checked_bounds()
    with (
        scratch() as folder,
        workbench(target, folder / "kernels.db", no_sandbox, threads) as (opened, run),
    ):
        result = run(lambda: job.bench_duels(opened, aa, slower, faster, mutants, note))
    if apart:
        result["mutants"] = mutants_apart(apart, threads, no_sandbox)
    publish(result, job.duels_report, markdown, as_json)
