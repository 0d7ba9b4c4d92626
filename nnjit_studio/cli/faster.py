"""The verb ``faster``: Wasm or WebGPU, for one model on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from nnjit_studio.cli.common import (
    database_option,
    gpu_option,
    inputs_option,
    json_option,
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


@click.command()
@model_argument
@click.option("--runs", default=20, show_default=True, type=click.IntRange(2, 10_000))
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Steps shown.")
@inputs_option
@target_option
@gpu_option
@threads_option
@sandbox_option
@database_option
@json_option
def faster(
    model: Path,
    runs: int,
    top: int,
    inputs: Path | None,
    target: str,
    gpu: str,
    threads: int,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Which is faster here: Wasm on --threads, or WebGPU?

    Both run MODEL on the same page with their best known kernels, whole and step by step;
    what moving inputs and outputs costs is measured apart, and the answer says why.
    """
    from nnjit_studio.analysis.backends import BackendComparison, as_text
    from nnjit_studio.records.backend import WASM
    from nnjit_studio.workbench.jobs import compare_backends, use_backend

    feeds = load_inputs(inputs)
    with workbench(
        target, database, no_sandbox, threads, read_only=True, backend="webgpu", gpu=gpu
    ) as (bench, run):
        on_gpu = bench.page.backend

        def work() -> BackendComparison:
            use_backend(bench.model, WASM)
            bench.open_model(model, note, feeds)
            return compare_backends(bench.model, note, runs, on_gpu)

        found = run(work)
    if as_json:
        print_json(found.to_json())
    else:
        say(as_text(found, top))
